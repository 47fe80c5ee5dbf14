"""The option `output`: the schema of an answer, and where each format's request puts it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from seqoria_runtime.providers._json import dump

from .output_schemas import closed_schema, strict_schema
from .schemas import Schema, unwrapped, wire_schema
from .wire_names import wire_name

Options: TypeAlias = dict[str, Any]
Place: TypeAlias = Callable[["Output", Options], None]


@dataclass(frozen=True, slots=True)
class Output:
    """A checked `output`: a name for it, and its schema, which is that of an object."""

    name: str
    schema: Schema

    @classmethod
    def of(cls, given: Any) -> "Output":
        """Check a class or a JSON schema. Raises `TypeError` for anything else."""
        schema = given if isinstance(given, Mapping) else _schema_of(given)
        top = unwrapped(schema, schema)
        if top.get("type") != "object":
            raise _refused(given)
        name = given.__name__ if isinstance(given, type) else top.get("title") or "output"
        made = wire_schema(schema)
        try:
            dump(made)
        except (TypeError, ValueError, RecursionError) as error:
            raise _refused(given, f"it cannot be written as JSON: {error}") from None
        return cls(wire_name(str(name)), made)


def _schema_of(given: Any) -> Schema:
    # Only a class says what its objects are; an instance, for example, is a mistake.
    if not inspect.isclass(given):
        return {}
    try:
        return TypeAdapter(given).json_schema()
    except PydanticUserError as error:
        raise _refused(given, error.message.partition("\n")[0]) from None


def _refused(given: Any, why: str = "") -> TypeError:
    return TypeError(
        "'output' must be a pydantic model, another class with named fields, or a JSON schema with"
        f" 'type': 'object', not {bounded_repr(given)}{f' ({why})' if why else ''}"
    )


def bounded_repr(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."  # noqa: PLR2004  # long enough to know it by


def with_output(options: Mapping[str, Any], place: Place, owner: str) -> Options:
    """Return the options with `output` put in the format's place for it.

    Raises `TypeError` if the place is taken, and `ValueError` for a schema that the API refuses.
    """
    chosen = dict(options)
    output = chosen.pop("output", None)
    try:
        if output is not None:
            place(output, chosen)
        elif "strict_output" in chosen:
            raise TypeError("'strict_output' needs 'output', which is not given")
    except (TypeError, ValueError) as error:
        raise type(error)(f"{owner}: {error}") from None
    return chosen


def in_response_format(output: Output, options: Options) -> None:
    """Place it for Chat Completions."""
    _expect_free("response_format" in options, "response_format")
    strict = options.pop("strict_output", False)
    wanted: Options = {"name": output.name, "schema": _convert(strict_schema if strict else dict, output)}
    options["response_format"] = {
        "type": "json_schema",
        "json_schema": wanted | ({"strict": True} if strict else {}),
    }


def nowhere(output: Output, options: Options) -> None:
    """Refuse it, for a server of Chat Completions that takes no schemas."""
    raise ValueError(
        f"'output' ({output.name}) has no place here, since this server takes no schema: describe the JSON"
        " in a prompt, and give response_format={'type': 'json_object'}"
    )


def in_text(output: Output, options: Options) -> None:
    """Place it for Responses."""
    text = options.get("text", {})
    _expect_free("format" in text, "text['format']")
    strict = options.pop("strict_output", False)
    schema = _convert(strict_schema if strict else dict, output)
    wanted = {"type": "json_schema", "name": output.name, "schema": schema, "strict": strict}
    options["text"] = {**text, "format": wanted}


def in_output_config(output: Output, options: Options) -> None:
    """Place it for Messages."""
    config = options.get("output_config", {})
    _expect_free("format" in config, "output_config['format']")
    schema = _convert(closed_schema, output)
    options["output_config"] = {**config, "format": {"type": "json_schema", "schema": schema}}


def in_format(output: Output, options: Options) -> None:
    """Place it for Ollama."""
    _expect_free("format" in options, "format")
    options["format"] = output.schema


def _convert(make: Callable[[Schema], Schema], output: Output) -> Schema:
    try:
        return make(output.schema)
    except ValueError as error:
        raise ValueError(f"'output' ({output.name}) holds {error}") from None


def _expect_free(taken: bool, place: str) -> None:
    if taken:
        raise TypeError(f"'output' and {place!r} mean the same: give one of them")
