"""The subcommand `chat`: its arguments, and the checks that need no model."""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seqoria_runtime.cli._command import (
    CommandError,
    Subcommand,
    add_backend_argument,
    add_context_argument,
    load_toolbox,
    positive,
    run_on,
)
from seqoria_runtime.models.errors import SeqoriaError

if TYPE_CHECKING:
    from seqoria_runtime.providers import AsyncOpenAICompatibleProvider
    from seqoria_runtime.toolbox import LocalToolbox


# The names in a provider's errors, and the flags that set them here.
_FLAGS = {
    "'api_key'": "--api-key-env",
    "'base_url'": "--base-url",
    "'profile'": "--profile",
    "model_id": "--model",
}


def _add_arguments(parser: ArgumentParser) -> None:
    add_backend_argument(parser)
    add = parser.add_argument
    add("--base-url", required=True, metavar="URL", help="the server, such as http://localhost:8080/v1")
    add("--model", required=True, metavar="NAME", help="the model to ask")
    add("--profile", metavar="NAME", help="the kind of server (default: by the URL's host)")
    add("--api-key-env", metavar="VAR", help="the environment variable that holds the API key")
    add(
        "--toolbox",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="a LocalToolbox to offer to the model; may be repeated",
    )
    add_context_argument(parser)
    add("--tool-choice", default="auto", help="auto, required, none or the name of a tool (default: auto)")
    add("--system", metavar="TEXT", help="the system prompt; an empty one turns it off")
    add("--max-turns", type=positive, default=5, metavar="N", help="model responses per turn (default: 5)")
    add("--once", type=_question, metavar="TEXT", help="ask this, print the answer and exit")


def _question(text: str) -> str:
    if not text.strip():
        raise ArgumentTypeError("must not be empty")
    return text


def _run(arguments: Namespace) -> int:
    from .conversation import ChatOptions, converse

    toolboxes = [load_toolbox(place) for place in arguments.toolbox]
    _check_tool_choice(arguments.tool_choice, toolboxes)
    options = ChatOptions(
        toolboxes=toolboxes,
        context=dict(arguments.context),
        tool_choice=arguments.tool_choice,
        system_prompt=arguments.system,
        max_turns=arguments.max_turns,
        once=arguments.once,
    )
    return run_on(arguments.backend, converse, _provider(arguments), options)


def _check_tool_choice(choice: str, toolboxes: "Sequence[LocalToolbox]") -> None:
    names = {tool.name for toolbox in toolboxes for tool in toolbox.tools}
    if choice in {"auto", "none"} or choice in names or (choice == "required" and names):
        return
    known = ", ".join(sorted(names)) or "none, as no --toolbox has any"
    raise CommandError(
        f"--tool-choice: must be auto, required, none or a tool's name, not {choice!r}; tools: {known}"
    )


def _provider(arguments: Namespace) -> "AsyncOpenAICompatibleProvider":
    from seqoria_runtime.providers import AsyncOpenAICompatibleProvider

    key = None
    if arguments.api_key_env is not None:
        key = os.environ.get(arguments.api_key_env)
        if not key:
            raise CommandError(f"--api-key-env: the environment variable {arguments.api_key_env} is not set")
    try:
        return AsyncOpenAICompatibleProvider(
            arguments.model, base_url=arguments.base_url, api_key=key, profile=arguments.profile
        )
    except (SeqoriaError, ValueError, TypeError) as error:
        raise CommandError(_with_flags(str(error))) from error


def _with_flags(text: str) -> str:
    for option, flag in _FLAGS.items():
        text = text.replace(option, flag)
    return text


CHAT = Subcommand(
    name="chat",
    summary="Talk to a model on any server that speaks Chat Completions, with tools of your own.",
    add_arguments=_add_arguments,
    run=_run,
)
