"""Makes requests that a server may answer by asking for input: answers it, and makes the request again.

The session's callbacks answer the questions.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar

import anyio
from mcp import ClientSession, MCPError
from mcp.client.session import ClientRequestContext
from mcp.shared.dispatcher import ProgressFnT
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    ErrorData,
    GetPromptResult,
    InputRequest,
    InputRequiredResult,
    InputResponses,
    ReadResourceResult,
)
from pydantic import TypeAdapter

from seqoria_runtime.mcp._transport.failures import RequestFailed

T = TypeVar("T")
Ask: TypeAlias = Callable[[InputResponses | None, str | None], Awaitable[T | InputRequiredResult]]

MAX_ROUNDS = 10

_PAUSE_SECONDS = 0.1
_RAW: TypeAdapter[Any] = TypeAdapter(dict[str, Any])


async def call_tool(
    session: ClientSession, name: str, arguments: dict[str, Any], *, progress: ProgressFnT | None = None
) -> dict[str, Any]:
    """Call a tool and return its result as JSON; an output schema is not enforced.

    Raises `MCPError` for an error answer, and `ValidationError` for one that breaks the protocol.
    """

    async def ask(
        responses: InputResponses | None, state: str | None
    ) -> dict[str, Any] | InputRequiredResult:
        params = CallToolRequestParams(
            name=name, arguments=arguments, input_responses=responses, request_state=state
        )
        result: dict[str, Any] = await session.send_request(
            CallToolRequest(params=params), _RAW, progress_callback=progress
        )
        if result.get("resultType") == "input_required":
            return InputRequiredResult.model_validate(result, by_name=False)
        return result

    return await _until_answered(session, ask)


async def read_resource(session: ClientSession, uri: str) -> ReadResourceResult:
    """Read a resource."""

    async def ask(
        responses: InputResponses | None, state: str | None
    ) -> ReadResourceResult | InputRequiredResult:
        return await session.read_resource(
            uri, input_responses=responses, request_state=state, allow_input_required=True
        )

    return await _until_answered(session, ask)


async def get_prompt(session: ClientSession, name: str, arguments: dict[str, str] | None) -> GetPromptResult:
    """Return a prompt with these arguments."""

    async def ask(
        responses: InputResponses | None, state: str | None
    ) -> GetPromptResult | InputRequiredResult:
        return await session.get_prompt(
            name, arguments, input_responses=responses, request_state=state, allow_input_required=True
        )

    return await _until_answered(session, ask)


async def _until_answered(session: ClientSession, ask: Ask[T]) -> T:
    answer = await ask(None, None)
    for _ in range(MAX_ROUNDS):
        if not isinstance(answer, InputRequiredResult):
            return answer
        responses = None
        if answer.input_requests:
            responses = await _responses(session, answer.input_requests)
        else:
            # The server wants to be asked again, without a question: do not ask in a busy loop.
            await anyio.sleep(_PAUSE_SECONDS)
        answer = await ask(responses, answer.request_state)
    if isinstance(answer, InputRequiredResult):
        raise RequestFailed(f"asked for input more than {MAX_ROUNDS} times", ran=True, about="refusal")
    return answer


async def _responses(session: ClientSession, requests: dict[str, InputRequest]) -> InputResponses:
    """Return the callbacks' answers; raise `MCPError` for the first refusal."""
    responses: InputResponses = {}
    for key, request in requests.items():
        meta = request.params.meta if request.params is not None else None
        context = ClientRequestContext(session=session, request_id=key, meta=meta)
        try:
            response = await session.dispatch_input_request(context, request)
        except Exception as exc:
            raise MCPError(0, f"a callback of the application failed with {type(exc).__name__}") from exc
        if isinstance(response, ErrorData):
            raise MCPError.from_error_data(response)
        responses[key] = response
    return responses
