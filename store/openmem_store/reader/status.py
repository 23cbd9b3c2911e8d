"""Own the summary of a store: what is in it, what the proxy did, and whether the proxy runs this code."""

import contextlib
from collections import Counter
from typing import cast

import apsw
import msgspec

from openmem_store import registration, schema, version
from openmem_store.layout import Layout
from openmem_store.reader import databases, results, source, threads

MOST_SESSIONS = 10
"""Sessions listed one by one."""

PROXY = "proxy:"
"""Before the code hash, in the `version` of an event that the proxy wrote."""


class Session(msgspec.Struct, frozen=True, omit_defaults=True):
    """One stored session."""

    session_id: str
    messages: int
    in_context: int
    trims: int
    fail_opens: int
    cwd: str | None = None
    """Where its agent works; None when it is not registered."""


class Usage(msgspec.Struct, frozen=True):
    """Sums over all recorded model calls. A count that no call reported is 0."""

    calls: int = 0
    input_tokens: int = 0
    """Without cache reads and writes."""
    cache_read_tokens: int = 0
    cache_creation_tokens: int = 0
    output_tokens: int = 0

    @property
    def hit_rate(self) -> float | None:
        """Share of prompt tokens read from the cache; None before any was reported."""
        prompt = self.input_tokens + self.cache_read_tokens + self.cache_creation_tokens
        return self.cache_read_tokens / prompt if prompt else None


class Summary(msgspec.Struct, frozen=True):
    """A whole store at one moment."""

    sessions: int
    messages: int
    in_context: int
    trims: int
    fail_opens: int
    heals: int
    usage: Usage
    cache_hit_rate: float | None
    proxy_version: str | None
    """Code hash in the newest event of a proxy; None before the first event."""
    code_version: str
    """Code hash of this process."""
    proxy_runs_this_code: bool | None
    """None before the first event."""
    seconds_since_write: float | None
    """Since any session was written to; None for an empty store."""
    vectors: dict[str, int]
    """Rows that were embedded, or given up, by model; empty where none was."""
    bytes: int
    """Of all session databases and blobs."""
    unreadable: int
    """Session files that are damaged, locked, or of a newer version; they are in no other figure but `sessions`."""
    newest: tuple[Session, ...]
    """The sessions written last."""


class _Counts(msgspec.Struct):
    messages: int = 0
    in_context: int = 0
    kinds: dict[str, int] = {}
    """Events by kind."""
    usage: Usage = Usage()
    vectors: dict[str, int] = {}
    """Rows by model."""
    proxy: tuple[str, str] | None = None
    """When the newest event of a proxy was written, and its version."""


def summary(layout: Layout, *, now: float) -> Summary:
    """Summarise the store under `layout`; `now` is seconds since the epoch. Never raises for a bad session file.

    Raises OSError for a store that cannot be looked into.
    """
    sids = databases.stored(layout)
    if not sids:
        databases.reach(layout.sessions)
    counts: dict[str, _Counts] = {}
    for sid in sids:
        threads.check()
        try:
            with source.opened(layout.database(sid)) as connection:
                counts[sid] = _count(connection)
        except results.UNREADABLE:
            continue
    usage = Usage(*(sum(column) for column in zip(*map(_sums, counts.values()), strict=True))) if counts else Usage()
    newest = max((each.proxy for each in counts.values() if each.proxy is not None), default=None)
    running = newest[1].removeprefix(PROXY) if newest else None
    written = databases.written(layout)
    return Summary(
        sessions=len(sids),
        messages=sum(each.messages for each in counts.values()),
        in_context=sum(each.in_context for each in counts.values()),
        trims=_events(counts, "trim"),
        fail_opens=_events(counts, "fail_open"),
        heals=_events(counts, "heal"),
        usage=usage,
        cache_hit_rate=None if usage.hit_rate is None else round(usage.hit_rate, 3),
        proxy_version=running,
        code_version=version.code_hash(),
        proxy_runs_this_code=None if running is None else running == version.code_hash(),
        seconds_since_write=round(max(0.0, now - max(written.values())), 1) if written else None,
        vectors=dict(sum((Counter(each.vectors) for each in counts.values()), Counter[str]())),
        bytes=_bytes(layout),
        unreadable=len(sids) - len(counts),
        newest=tuple(_session(layout, sid, counts[sid]) for sid in sids if sid in counts)[:MOST_SESSIONS],
    )


def _count(connection: apsw.Connection) -> _Counts:
    found = schema.user_version(connection)
    messages, in_context = _row(connection, "SELECT count(*), coalesce(sum(in_context), 0) FROM messages")
    counts = _Counts(messages, in_context)
    counts.vectors = dict(cast("list[tuple[str, int]]", connection.execute(_VECTORS).fetchall()))
    if found >= 2:
        events = connection.execute("SELECT kind, count(*) FROM events GROUP BY kind")
        counts.kinds = dict(cast("list[tuple[str, int]]", events.fetchall()))
        newest = connection.execute(_NEWEST_PROXY).fetchone()
        counts.proxy = cast("tuple[str, str] | None", newest)
    if found >= 3:
        counts.usage = Usage(*_row(connection, _USAGE))
    return counts


# Read from the index alone: a row of the table is as large as its vector.
_VECTORS = "SELECT model, count(*) FROM vectors GROUP BY model"
_NEWEST_PROXY = "SELECT at, version FROM events WHERE version GLOB 'proxy:*' ORDER BY at DESC, id DESC LIMIT 1"
_USAGE = """
SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(cache_read_tokens), 0),
  coalesce(sum(cache_creation_tokens), 0), coalesce(sum(output_tokens), 0)
FROM events WHERE kind = 'usage'"""


def _row(connection: apsw.Connection, statement: str) -> tuple[int, ...]:
    return cast("tuple[int, ...]", connection.execute(statement).fetchone())


def _sums(counts: _Counts) -> tuple[int, ...]:
    return cast("tuple[int, ...]", msgspec.structs.astuple(counts.usage))


def _events(counts: dict[str, _Counts], kind: str) -> int:
    return sum(each.kinds.get(kind, 0) for each in counts.values())


def _session(layout: Layout, sid: str, counts: _Counts) -> Session:
    registered = registration.read(layout, sid)
    return Session(
        session_id=sid,
        messages=counts.messages,
        in_context=counts.in_context,
        trims=counts.kinds.get("trim", 0),
        fail_opens=counts.kinds.get("fail_open", 0),
        cwd=registered.cwd if registered else None,
    )


def _bytes(layout: Layout) -> int:
    total = 0
    for path in (*layout.sessions.glob("*.db*"), *layout.blobs.glob("*.txt")):
        with contextlib.suppress(OSError):  # a checkpoint or a sweep may remove it meanwhile
            total += path.stat().st_size
    return total
