"""Own what is said of each stored session: where it ran, what it holds, what trimming did to it."""

from typing import cast

import apsw
import msgspec
from openmem_store import registration, schema
from openmem_store.layout import Layout
from openmem_store.reader import databases, source

from openmem_addon.commands import pricing, savings
from openmem_addon.commands.pricing import Counts
from openmem_addon.commands.savings import Call, Savings, Trim


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
    cache_hit_rate: float | None
    """Share of all prompt tokens that the provider read from its cache; None where it reports none."""
    saved: Savings
    fail_opens: int
    heals: int
    vectors: int
    """Rows that have one."""


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
    [vectors] = _numbers(connection, "SELECT count(*) FROM vectors WHERE dim > 0")
    recorded = events(connection)
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
        cache_hit_rate=round(sum(call.counts.read for call in calls) / prompt, 3) if prompt else None,
        saved=savings.saved(recorded),
        fail_opens=kinds.get("fail_open", 0),
        heals=kinds.get("heal", 0),
        vectors=vectors,
    )


_EVENTS = """
SELECT kind, tokens_before, tokens_after, model, thread_root, trimmed,
  input_tokens, cache_read_tokens, cache_creation_tokens, output_tokens
FROM events WHERE kind IN ('trim', 'usage') ORDER BY id"""

_Event = tuple[str, int | None, int | None, str | None, str | None, int | None, *tuple[int | None, ...]]


def events(connection: apsw.Connection) -> list[Trim | Call]:
    """Return a session's trims and calls in order; none of a file from before they were recorded. Raises apsw.Error."""
    if schema.user_version(connection) < 3:
        return []
    found: list[Trim | Call] = []
    for kind, before, after, model, thread, trimmed, *counts in cast("list[_Event]", list(connection.execute(_EVENTS))):
        if kind == "trim":
            found.append(Trim(before or 0, after or 0))
        elif any(count is not None for count in counts):
            uncached, read, written, output = counts
            cached = read is not None or written is not None
            found.append(
                Call(model, thread, trimmed or 0, Counts(uncached or 0, read or 0, written or 0, output or 0), cached)
            )
    return found


def table(reports: list[Report]) -> list[str]:
    """Return aligned lines, a heading first."""
    heading = ("session", "agent", "folder", "messages", "in prompt", "trims", "tokens", "cache", "saved", "", "")
    rows = [heading, *(_cells(each) for each in reports)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heading))]
    lines: list[str] = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < 3 or column > 8 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def footer(total: Savings) -> str:
    """Return the line that says what the figures mean."""
    unpriced = f"; no price for {', '.join(total.unpriced)}" if total.unpriced else ""
    return f"saved: net of cache rewrites, without the provider's own caching; prices of {pricing.AS_OF}{unpriced}"


def amount(saved: Savings) -> str:
    """Return tokens and money, for a cell."""
    return f"{short(saved.tokens)} tok, ${saved.dollars:,.2f}" if saved.tokens else "-"


def short(tokens: int) -> str:
    """Return a count in thousands or millions."""
    if tokens >= 1_000_000:
        return f"{tokens / 1e6:.1f}M"
    return f"{tokens / 1000:.0f}k" if tokens >= 1000 else str(tokens)


def _cells(each: Report) -> tuple[str, ...]:
    troubles = [f"{count} {noun}" for count, noun in ((each.fail_opens, "fail-opens"), (each.heals, "heals")) if count]
    return (
        each.session_id[:36],
        each.agent or "-",
        _tail(each.cwd),
        f"{each.messages:,}",
        f"{each.in_context:,}",
        str(each.trims),
        f"{short(each.tokens_before)} → {short(each.tokens_after)}" if each.trims else "-",
        f"{each.cache_hit_rate:.0%}" if each.cache_hit_rate is not None else "-",
        amount(each.saved),
        ", ".join(troubles),
        f"{each.vectors:,} vectors" if each.vectors else "",
    )


def _tail(cwd: str | None) -> str:
    """Return the end of a path, which tells folders apart."""
    return "-" if not cwd else cwd if len(cwd) <= 28 else f"…{cwd[-27:]}"


def _kinds(connection: apsw.Connection) -> dict[str, int]:
    if schema.user_version(connection) < 2:
        return {}
    return dict(
        cast("list[tuple[str, int]]", list(connection.execute("SELECT kind, count(*) FROM events GROUP BY kind")))
    )


def _numbers(connection: apsw.Connection, statement: str) -> tuple[int, ...]:
    return cast("tuple[int, ...]", connection.execute(statement).fetchone())
