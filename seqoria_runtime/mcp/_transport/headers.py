"""Owns what an application adds to HTTP requests: fixed headers, or a function's, for each call."""

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from seqoria_runtime._execution.calls.threads import run_in_thread
from seqoria_runtime.mcp._config.server_config import HeaderSource, header_fault

from .failures import RequestFailed


async def headers_for(source: HeaderSource | None, context: Mapping[str, Any]) -> dict[str, str] | None:
    """The headers for a request of this trusted context; `None` if none are configured.

    A sync function runs in a worker thread. Raises `RequestFailed`, which names no value, if it fails.
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
        raise RequestFailed(f"was not asked: what 'headers' gives {fault}", ran=False, about="caller")
    return headers
