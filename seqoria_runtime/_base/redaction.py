"""Removes credentials from text that goes into logs, errors and reprs.

It knows patterns and needs no list of the keys in use. Every pattern is linear in the length of the
text, and text without a suspicious word is returned as it is.
"""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

REDACTED = "[REDACTED]"
REDACTED_URL = "[REDACTED URL]"
_CUT = " [cut]"

# Any text that a pattern below can match has at least one of these, in lower case.
_HINTS = (
    "://", "bearer", "basic", "authorization", "key", "token", "secret", "passw", "pwd", "credential",
    "cookie", "signature", "sk-", "gsk_", "ghp_", "gho_", "ghs_", "hf_", "xai-", "xox", "glpat", "aiza",
    "github_pat", "eyj",
)  # fmt: skip

# Patterns are strings, which `re` compiles at first use: compiling them all takes as long as importing
# a dozen modules, and most processes have nothing to hide.

# The scheme is bounded so that a long run of letters is not scanned once per letter.
_URL = r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s\"'<>\\^`{|}]+"
_AUTHORITY = r"[^/?#]*"
# A bare host could also be a key; with a port or a path it is the start of a URL.
_ADDRESS = (
    r"(?i)(?:[a-z][a-z0-9+.-]{0,30}:/{0,3})?(?:localhost|(?:[\w-]{1,63}\.){1,9}[\w-]{1,63}|[\w-]{1,63}(?=:\d))"
    r"(?::\d{1,5}(?:/.*)?|/.*)"
)
_QUERY = r"(?s)([^?#]*)([?#]?)(.*)"
_PROSE = (
    r"(?!(?:tokens?|auth\w*|realm|scheme|headers?|credentials?|of|is|was|or|and|in|for|with|required"
    r"|value|format|security|type)\b)"
)
_SCHEME_VALUE = (
    rf"(?i)\b(?:(bearer\s{{1,8}}){_PROSE}[A-Za-z0-9._~+/=:-]+"
    r"|(basic\s{1,8})(?=[A-Za-z0-9+/]{1,300}(?:[\d=]|(?-i:[A-Z])))[A-Za-z0-9+/]{6,}={0,2})"
)
_PRIVATE_KEY = r"(?s)-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----.*?(?:-----END[A-Z -]{0,60}|\Z)"
_COOKIES = r"(?i)(\b(?:set-)?cookie:\s{0,8})[^\r\n\"']+"

_CERTAIN = (
    r"api[_-]?keys?|access[_-]?key(?:[_-]?id)?|(?:secret|private|subscription)[_-]?key|client[_-]?secret"
    r"|(?:access|auth|refresh|id|session|bearer|api)[_-]?token|password|passwd|pwd"
    r"|(?:proxy-)?authorization|(?:set-)?cookie"
)
_MAYBE = r"(?<![a-z])(?:token|secret|signature|key|credentials?)"
_QUOTE = r"\\*[\"']"
_BARE_VALUE = rf"(?:(?:bearer|basic|token|digest)\s{{1,8}})?(?:{re.escape(REDACTED)}|[^\s\"'\\,;&)}}\]<>]+)"
# The closing quote is optional, so that text that was cut inside a value does not show its start.
_QUOTED_VALUE = (
    r"(?P<open>\\*)(?P<quote>[\"'])(?:(?!(?P=open)(?P=quote))(?:\\.|\\\Z|[^\\]))*(?:(?P=open)(?P=quote)|\Z)"
)
_ASSIGNMENT = (
    rf"(?is)(?P<name>(?:{_CERTAIN})(?:{_QUOTE})?\s{{0,8}}[:=]\s{{0,8}}"
    # A word like "token" alone counts only if it looks like code: assigned, or a quoted key.
    rf"|{_MAYBE}(?:{_QUOTE}\s{{0,8}}[:=]|\s{{0,8}}=)\s{{0,8}})(?:{_QUOTED_VALUE}|{_BARE_VALUE})"
)
_KEY_SHAPES = (
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?=[\w*-]{0,60}[\d*])[\w*-]{8,}"
    r"|(?:gsk|ghp|gho|ghs|hf|github_pat)_[A-Za-z0-9_]{12,}"
    r"|(?:xai|glpat|xox[abprs])-[A-Za-z0-9_-]{12,}"
    r"|AIza[A-Za-z0-9_-]{20,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"
    r")"
)


def redact(text: str) -> str:
    """Hide URL user info, query values and fragments, authorization values and key-like assignments."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    text = re.sub(_PRIVATE_KEY, REDACTED, text)
    text = re.sub(_URL, lambda match: redact_url(match[0]), text)
    text = re.sub(_COOKIES, rf"\1{REDACTED}", text)
    text = re.sub(_ASSIGNMENT, _hide_value, text)
    text = re.sub(_SCHEME_VALUE, _hide_scheme_value, text)
    return re.sub(_KEY_SHAPES, REDACTED, text)


def _hide_value(match: re.Match[str]) -> str:
    mark = f"{match['open']}{match['quote']}" if match["quote"] else ""
    return f"{match['name']}{mark}{REDACTED}{mark}"


def _hide_scheme_value(match: re.Match[str]) -> str:
    return f"{match[1] or match[2]}{REDACTED}"


def redact_url(url: str) -> str:
    """Hide a URL's user info, query values and fragment; host, port, path and parameter names stay."""
    scheme, _, rest = url.partition("://")
    authority = re.match(_AUTHORITY, rest)[0]  # type: ignore[index]  # it matches the empty text as well
    user, at, host = authority.rpartition("@")
    try:
        parts = urlsplit(f"{scheme}://{host}{rest[len(authority) :]}")
        usable = bool(host) and parts.port != 0
    except ValueError:
        usable = False
    # A password with an unescaped "/" ends the authority early, so that its port is not a number.
    if not usable:
        return REDACTED_URL
    if not (at or parts.query or parts.fragment):
        return url
    query = "?" + "&".join(_hidden_pairs(parts.query)) if parts.query else ""
    fragment = f"#{REDACTED}" if parts.fragment else ""
    return f"{scheme}://{REDACTED + at if user else at}{host}{parts.path}{query}{fragment}"


def redact_mistyped_url(url: str) -> str:
    """Hide as `redact_url` does, but show the host and path of an incomplete URL."""
    shown = redact_url(url)
    if shown != REDACTED_URL:
        return shown
    head, mark, tail = re.match(_QUERY, url).groups()  # type: ignore[union-attr]  # it matches any text
    user, at, address = head.rpartition("@")
    # An "@" after a "?" may end a password or be part of a query, so either side may be secret.
    if "@" in tail or not re.fullmatch(_ADDRESS, address):
        return REDACTED_URL
    return redact(f"{REDACTED + at if user else at}{address}{mark + REDACTED if mark else ''}")


def _hidden_pairs(query: str) -> Iterable[str]:
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        if not equals:
            yield REDACTED
        else:
            yield f"{name}={REDACTED}" if value else pair


def bounded(text: str, limit: int) -> str:
    """Cut text to at most `limit` characters, and mark the cut."""
    if len(text) <= limit:
        return text
    return text[: max(limit - len(_CUT), 0)] + _CUT[:limit]
