"""Own the rows of a conversation: their values, and what names a row and the full text of a compressed one."""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

Role = Literal["user", "assistant", "tool"]
Kind = Literal["text", "tool_use", "tool_result", "thinking"]

ROLES: tuple[Role, ...] = ("user", "assistant", "tool")
KINDS: tuple[Kind, ...] = ("text", "tool_use", "tool_result", "thinking")


class Draft(msgspec.Struct, frozen=True):
    """One content block as text, before its place in the conversation names it."""

    role: Role
    kind: Kind
    name: str | None
    """Tool name of a call or a result, `system` for a mid-conversation system message, else None."""
    text: str
    """Holds no lone surrogate: SQLite text is UTF-8."""


class Row(msgspec.Struct, frozen=True):
    """One row of `messages`, without what the database assigns."""

    fingerprint: str
    thread: str
    """Fingerprint of the first row of the conversation."""
    role: Role
    kind: Kind
    name: str | None
    text: str


_SURROGATE = re.compile("[\ud800-\udfff]")


def storable(text: str) -> str:
    """Return `text` as SQLite and UTF-8 files can hold it: each lone surrogate is one U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def blob_id(text: str) -> str:
    """Return what names the full text of a compressed result: the first 16 hex of its SHA-256, as it is stored."""
    return hashlib.sha256(storable(text).encode()).hexdigest()[:16]


def fingerprint(value: object) -> str:
    """Return the first 32 hex of the SHA-256 of `value` as compact JSON with sorted keys.

    Non-ASCII goes in as UTF-8; a lone surrogate as its `\\uXXXX` escape, so that nothing raises.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        encoded = _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", text).encode()
    return hashlib.sha256(encoded).hexdigest()[:32]


def chain(drafts: Iterable[Draft], *, previous: str = "", thread: str = "") -> tuple[Row, ...]:
    """Name each draft by everything before it.

    The same history gives the same names whatever its wire form; the same text said twice
    gives two; a changed message renames itself and all that follow. `previous` and `thread`
    are the last and the first fingerprint of a chain that the drafts go on with.
    """
    rows: list[Row] = []
    for draft in drafts:
        previous = fingerprint(
            {"prev": previous, "role": draft.role, "kind": draft.kind, "name": draft.name, "text": draft.text}
        )
        thread = thread or previous
        rows.append(Row(previous, thread, draft.role, draft.kind, draft.name, draft.text))
    return tuple(rows)
