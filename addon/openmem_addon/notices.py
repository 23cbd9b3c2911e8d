"""Own what the proxy leaves for an agent's prompt hook to say: one JSON object a line in `sessions/<sid>.notice`.

The hook takes the file away before it reads it, so a line belongs to one prompt.
"""

import os

import msgspec
from openmem_store.layout import Layout


class Trimmed(msgspec.Struct, frozen=True):
    """A trim happened."""

    moved: int
    """Tokens that left the prompt."""
    kept: int
    """Wire messages that it still holds."""


class Untrimmed(msgspec.Struct, frozen=True):
    """A session outgrew its threshold, and its agent has no tools to look up what would leave."""

    untrimmed: int
    """Tokens of its prompt."""


Notice = Trimmed | Untrimmed


def leave(layout: Layout, sid: str, notice: Notice) -> None:
    """Append a notice. Raises OSError."""
    line = msgspec.json.encode(notice) + b"\n"
    descriptor = os.open(layout.notice(sid), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
