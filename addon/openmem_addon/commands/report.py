"""Own what is said of each stored session: where it ran, what it holds, what trimming did to it."""

from typing import cast

import apsw
import msgspec
from openmem_store import registration, schema
from openmem_store.layout import Layout
from openmem_store.reader import databases, source

from openmem_addon import switch
from openmem_addon.commands import account, savings
from openmem_addon.commands.savings import Call, Savings, Trim
from openmem_addon.switch import Switch


class Report(msgspec.Struct, frozen=True):
    """One session."""

    session_id: str
    agent: str | None
    """None for a session that no hook has registered."""
    cwd: str | None
    messages: int
    in_context: int
    trims: int
    tokens_before: int
    """Of the last trim, by our estimate; 0 before the first."""
    tokens_after: int
    calls: int
    compressed: int
    """Tool results that are shown as head and tail."""
    cache_hit_rate: float | None
    """Share of all prompt tokens that the provider read from its cache; None where it reports none."""
    saved: Savings
    fail_opens: int
    heals: int
    vectors: int
    """Rows that have one."""
    switch: Switch
    """What holds for it: its own, or the one for all."""


def sessions(layout: Layout, *, most: int | None = None) -> list[Report]:
    """Return the stored sessions, the one written last first. One that cannot be read is passed over."""
    found: list[Report] = []
    for sid in databases.stored(layout)[:most]:
        try:
            with source.opened(layout.database(sid)) as connection:
                found.append(_report(layout, sid, connection))
        except (apsw.Error, schema.UnsupportedSchema):
            continue
    return found


def _report(layout: Layout, sid: str, connection: apsw.Connection) -> Report:
    known = registration.read(layout, sid)
    messages, in_context = _numbers(connection, "SELECT count(*), coalesce(sum(in_context), 0) FROM messages")
    [compressed] = _numbers(connection, "SELECT count(*) FROM messages WHERE blob_id IS NOT NULL")
    [vectors] = _numbers(connection, "SELECT count(*) FROM vectors WHERE dim > 0")
    recorded = account.read(connection, layout)
    trims = [event for event in recorded if isinstance(event, Trim)]
    calls = [event for event in recorded if isinstance(event, Call)]
    prompt = sum(call.counts.prompt for call in calls if call.cached)
    kinds = _kinds(connection)
    return Report(
        session_id=sid,
        agent=known.agent if known else None,
        cwd=known.cwd if known else None,
        messages=messages,
        in_context=in_context,
        trims=len(trims),
        tokens_before=trims[-1].before if trims else 0,
        tokens_after=trims[-1].after if trims else 0,
        calls=len(calls),
        compressed=compressed,
        cache_hit_rate=round(sum(call.counts.read for call in calls) / prompt, 3) if prompt else None,
        saved=savings.saved(recorded),
        fail_opens=kinds.get("fail_open", 0),
        heals=kinds.get("heal", 0),
        vectors=vectors,
        switch=switch.read(layout, sid),
    )


def _kinds(connection: apsw.Connection) -> dict[str, int]:
    if schema.user_version(connection) < 2:
        return {}
    return dict(
        cast("list[tuple[str, int]]", list(connection.execute("SELECT kind, count(*) FROM events GROUP BY kind")))
    )


def _numbers(connection: apsw.Connection, statement: str) -> tuple[int, ...]:
    return cast("tuple[int, ...]", connection.execute(statement).fetchone())
