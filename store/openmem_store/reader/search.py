"""Own the search over words: which rows match and how many, in one or several sessions.

Hits and counts follow one scope (filters, no echoes); counts are exact whatever the order and limit.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import apsw
import msgspec

from openmem_store import schema
from openmem_store.reader import databases, excerpts, ranking, results, scope, words
from openmem_store.reader.results import Answer, Hit, Result

Ranking = Literal["best", "contract"]


class Request(msgspec.Struct, frozen=True):
    """One search, its arguments checked."""

    scope: scope.Scope
    limit: int
    context: int = 0
    """Rows shown before and after each hit."""
    ranking: Ranking = "best"


class _Session(msgspec.Struct, frozen=True):
    """One searched session, its database still open."""

    connection: apsw.Connection
    rows: scope.Rows
    total: int
    lines: Counter[str]
    """Matching lines by heading."""
    ranked: list[tuple[ranking.Key, Hit]]


def search(query: str, request: Request, files: dict[str, Path], *, why: str) -> Answer:
    """Search the sessions of `files` (session id to database) for the words of a query."""
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        found: dict[str, _Session] = {}
        for sid, path in files.items():
            try:
                connection = stack.enter_context(databases.opened(path))
                found[sid] = _one(connection, sid, query, request)
            except (apsw.Error, schema.UnsupportedSchema) as error:
                skipped[sid] = results.unreadable(error)
        hits = [hit for _, hit in sorted(_ranked(found.values()), key=lambda each: each[0])[: request.limit]]
        lines = sum((session.lines for session in found.values()), Counter[str]())
        return Answer(
            mode="lexical",
            scope=why,
            total_matches=sum(session.total for session in found.values()),
            line_matches=lines.total(),
            line_matches_by=scope.breakdown(lines),
            echoes_excluded=sum(session.rows.echo_count for session in found.values()),
            databases={sid: str(files[sid]) for sid in found},
            results=results.fitting(_shown(hits, found, query, request)),
            hint=None if query.strip() else "query is empty: give words, or a pattern",
            skipped=skipped,
        )


def _one(connection: apsw.Connection, sid: str, query: str, request: Request) -> _Session:
    rows = scope.load(connection, request.scope)
    found = [
        _apart(connection, words.find(connection, word), rows)
        for word in words.parse(query, words.Tokenizer(connection))
    ]
    everywhere = Counter(seq for each in found for seq in each.seqs)
    matched = {seq: count for seq, count in everywhere.items() if seq in rows.allowed}
    lines = Counter[str]()
    for seq, count in words.line_counts(connection, found).items():
        if seq in rows.allowed:
            lines[rows.heading(seq)] += count
    ordered = ranking.ORDERS[request.ranking](connection, found, matched, rows)[: request.limit]
    ranked = [(key, Hit(sid, seq, matched.get(seq, 0), newer_matches=_newer(matched, seq))) for key, seq in ordered]
    return _Session(connection, rows, len(matched), lines, ranked)


def _apart(connection: apsw.Connection, found: words.Found, rows: scope.Rows) -> words.Found:
    """Leave out rows that hold a word only inside one of our answers."""
    doubtful = found.seqs & rows.echoes.lines.keys()
    if not doubtful:
        return found
    sure = words.line_counts(connection, [words.Found(found.word, doubtful, found.scanned)]).keys()
    return words.Found(found.word, found.seqs - (doubtful - sure), found.scanned)


def _newer(matched: dict[int, int], seq: int) -> int | None:
    least = matched.get(seq, 0)
    return sum(1 for other, count in matched.items() if other > seq and count >= least) or None


def _ranked(found: Iterable[_Session]) -> Iterable[tuple[ranking.Key, Hit]]:
    return (each for session in found for each in session.ranked)


def _shown(hits: list[Hit], found: dict[str, _Session], query: str, request: Request) -> Iterable[Result]:
    size = results.excerpt_size(len(hits))
    for hit in hits:
        session = found[hit.sid]
        find = excerpts.matcher(words.parse(query, words.Tokenizer(session.connection)))
        yield results.show(session.connection, hit, session.rows, find, size=size, context=request.context)
