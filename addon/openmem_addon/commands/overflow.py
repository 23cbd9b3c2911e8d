"""Own which stored sessions would no longer fit their model, were their whole history sent again."""

from typing import cast

import apsw
import msgspec
from openmem_store import registration, schema
from openmem_store.layout import Layout
from openmem_store.reader import databases, source

from openmem_addon.commands import pricing


class Overflow(msgspec.Struct, frozen=True):
    """A session that only fits because the proxy leaves a part of it out."""

    sid: str
    model: str | None
    tokens: int
    """Estimate of its whole history."""
    window: int
    """Tokens its model can read."""
    cwd: str | None

    def __str__(self) -> str:
        place = f" in {self.cwd}" if self.cwd else ""
        return f"{self.sid}{place}: about {self.tokens:,} tokens, {self.model or 'its model'} reads {self.window:,}"


_LAST_CALLS = """
SELECT thread_root, model, max(id),
  coalesce(input_tokens, 0) + coalesce(cache_read_tokens, 0) + coalesce(cache_creation_tokens, 0)
FROM events WHERE kind = 'usage' AND thread_root IS NOT NULL AND trimmed > 0 GROUP BY thread_root
"""
_LEFT_OUT = """
SELECT coalesce(sum(length(text)), 0) FROM messages
WHERE thread = ? AND in_context = 0 AND trimmed_at_seq IS NOT NULL
"""


def overflowing(layout: Layout, *, chars_per_token: float) -> list[Overflow]:
    """Return the sessions whose history is larger than their model's window, the one written last first.

    A session file that cannot be read is passed over: `status` counts it.
    """
    found: list[Overflow] = []
    for sid in databases.stored(layout):
        try:
            with source.opened(layout.database(sid)) as connection:
                largest = _largest(connection, chars_per_token)
        except (apsw.Error, schema.UnsupportedSchema):
            continue
        if largest is not None and largest[1] > pricing.window(largest[0]):
            known = registration.read(layout, sid)
            found.append(Overflow(sid, *largest, pricing.window(largest[0]), known.cwd if known else None))
    return found


def _largest(connection: apsw.Connection, chars_per_token: float) -> tuple[str | None, int] | None:
    """Return model and estimated tokens of a session's longest thread; None where none was trimmed."""
    if schema.user_version(connection) < 3:
        return None
    calls = cast("list[tuple[str, str | None, int, int]]", connection.execute(_LAST_CALLS).fetchall())
    sizes: list[tuple[int, str | None]] = []
    for thread, model, _, prompt in calls:
        left = cast("tuple[int]", connection.execute(_LEFT_OUT, (thread,)).fetchone())[0]
        sizes.append((prompt + round(left / chars_per_token), model))
    if not sizes:
        return None
    tokens, model = max(sizes, key=lambda size: size[0])
    return model, tokens
