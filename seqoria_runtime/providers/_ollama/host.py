"""Reads where an Ollama server is, in the forms in which its own programs take that."""

import os
from typing import Any
from urllib.parse import urlsplit

_DEFAULT = "http://localhost:11434"
_PORT = 11434
_UNSPECIFIED = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}


def ollama_url(host: Any) -> Any:
    """Give the base URL of a host, or of what `OLLAMA_HOST` says, or of a server on this machine.

    A host needs neither scheme nor port. An address to listen at on all interfaces, which the
    variable holds for a server, stands for this machine. What is no text is given back as it is.
    """
    if host is None:
        host = os.environ.get("OLLAMA_HOST", "").strip().strip("\"'") or _DEFAULT
    if not isinstance(host, str):
        return host
    plain = "://" not in host
    try:
        parts = urlsplit(f"http://{host}" if plain else host)
        name, port = parts.hostname or "", parts.port or (_PORT if plain else None)
    except ValueError:
        return host
    user, at, _ = parts.netloc.rpartition("@")
    shown = _UNSPECIFIED.get(name) or (f"[{name}]" if ":" in name else name)
    place = f"{user}{at}{shown}" + (f":{port}" if port else "")
    path = parts.path.rstrip("/").removesuffix("/v1").removesuffix("/api")
    return parts._replace(netloc=place, path=path).geturl()
