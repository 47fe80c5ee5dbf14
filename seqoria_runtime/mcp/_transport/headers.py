"""Computes the HTTP headers that the application configured, per call where they come from a function."""

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.mcp._config.server_config import HeaderSource, header_fault

from .failures import RequestFailed


async def headers_for(source: HeaderSource | None, context: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the headers for a request with this trusted context; `None` if none are configured.

    A sync function runs in a worker thread. Raises `RequestFailed`, without any value, if it fails.
    """
    if source is None:
        return None
    if not callable(source):
        return dict(source)
    try:
        bound = partial(source, context)
        value = bound() if inspect.iscoroutinefunction(source) else await run_in_thread(bound)
        headers = dict(await value if inspect.isawaitable(value) else value)
    except Exception as exc:
        raise RequestFailed(
            f"was not asked: 'headers' failed with {type(exc).__name__}", ran=False, about="caller"
        ) from exc
    fault = header_fault(headers)
    if fault is not None:
        raise RequestFailed(f"was not asked: the result of 'headers' {fault}", ran=False, about="caller")
    return headers
