"""Own the session id rule; the proxy, the hooks and the reader apply it alike."""

import hashlib
import re

ASCII_SPACE = " \t\n\v\f\r"
"""The only whitespace the contract trims; a no-break space is part of an id."""

MAX_LENGTH = 200
"""Longest sanitised id; with the longest suffix, `.trim.json`, a file name stays far under 255 bytes."""

_KEPT = MAX_LENGTH - 17
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]")


def sanitize(raw: str) -> str | None:
    """Return the id that names a session's files, or None when nothing is left.

    Every code point outside `[A-Za-z0-9._-]` becomes one `_`. An id longer than 200
    characters becomes its first 183, `-` and 16 hex of the SHA-256 of the sanitised id.
    """
    sid = _FOREIGN.sub("_", raw.strip(ASCII_SPACE))
    if len(sid) > MAX_LENGTH:
        digest = hashlib.sha256(sid.encode()).hexdigest()[:16]
        return f"{sid[:_KEPT]}-{digest}"
    return sid or None


def checked(argument: str) -> str:
    """Return the sanitised id of a tool argument.

    Raises ValueError for an id that is empty, is `.` or `..`, or holds a path separator:
    pointers always give the sanitised id, so such an argument is never ours.
    """
    if "/" in argument or "\\" in argument or argument.strip(ASCII_SPACE) in (".", ".."):
        raise ValueError("session_id must not be '.', '..' or contain '/' or '\\': use the id from the pointer")
    sid = sanitize(argument)
    if sid is None:
        raise ValueError("session_id is empty: use the id from the pointer, or leave it out")
    return sid
