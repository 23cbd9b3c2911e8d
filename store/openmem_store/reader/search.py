"""Own the search over words: which rows match and how many, in one or several sessions.

Hits and counts follow one scope (filters, no echoes); counts are exact whatever the order and limit.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import apsw
import msgspec

from openmem_store import schema
from openmem_store.reader import excerpts, ranking, results, scope, source, words
from openmem_store.reader.results import Answer, Hit, Result


class Request(msgspec.Struct, frozen=True):
    """One search, its arguments checked."""

    scope: scope.Scope
    limit: int
    context: int = 0
    """Rows shown before and after each hit."""
    ranking: str = "best"
    """A key of `ranking.RANKINGS`."""


class _Session(msgspec.Struct, frozen=True):
    """One searched session, its database still open."""

    connection: apsw.Connection
    rows: scope.Rows
    echoes: int
    """Rows that match and are left out."""
    lines: Counter[str]
    """Matching lines by heading."""
    order: ranking.Order
    matched: dict[int, int]
    """Distinct words of the query in each row that passes the filters."""
    find: results.FindLines


def search(query: str, request: Request, files: dict[str, Path], *, why: str) -> Answer:
    """Search the sessions of `files` (session id to database) for the words of a query."""
    skipped: dict[str, str] = {}
    with ExitStack() as stack:
        found: dict[str, _Session] = {}
        for sid, path in files.items():
            try:
                connection = stack.enter_context(source.opened(path))
                found[sid] = _one(connection, sid, query, request)
            except (apsw.Error, schema.UnsupportedSchema) as error:
                skipped[sid] = results.unreadable(error)
        hits = _first(found, request.limit)
        lines = sum((session.lines for session in found.values()), Counter[str]())
        shown = results.fitting(_shown(hits, found, request.context))
        return Answer(
            mode="lexical",
            scope=why,
            total_matches=sum(len(session.matched) for session in found.values()),
            line_matches=lines.total(),
            line_matches_by=scope.breakdown(lines),
            echoes_excluded=sum(session.echoes for session in found.values()),
            databases={sid: str(files[sid]) for sid in found},
            results=shown,
            hint=results.left_out(shown, len(hits)) if query.strip() else _EMPTY,
            related=_related(found.values()),
            skipped=skipped,
        )


_EMPTY = "query is empty: give words, or a pattern"


def _one(connection: apsw.Connection, sid: str, query: str, request: Request) -> _Session:
    rows = scope.Rows(connection, request.scope)
    found = [
        _apart(connection, words.find(connection, word), rows)
        for word in words.parse(query, words.Tokenizer(connection))
    ]
    everywhere = Counter(seq for each in found for seq in each.seqs)
    allowed = rows.allowed(everywhere)
    matched = {seq: count for seq, count in everywhere.items() if seq in allowed}
    lines = Counter[str]()
    for seq, count in words.line_counts(connection, found, allowed, rows.echoes.lines).items():
        lines[rows.heading(seq)] += count
    order = ranking.RANKINGS[request.ranking](connection, found, matched, rows, request.limit)
    related = [words.Word(term, (term,)) for terms in order.related.values() for term in terms]
    find = excerpts.matcher([*(each.word for each in found), *related])
    return _Session(connection, rows, rows.excluded(everywhere), lines, order, matched, find)


def _apart(connection: apsw.Connection, found: words.Found, rows: scope.Rows) -> words.Found:
    """Leave out rows that hold a word only inside one of our answers."""
    doubtful = found.seqs.intersection(rows.echoes.lines)
    if not doubtful:
        return found
    alone = [words.Found(found.word, doubtful, found.scanned)]
    sure = words.line_counts(connection, alone, doubtful, rows.echoes.lines).keys()
    return words.Found(found.word, found.seqs - (doubtful - sure), found.scanned)


def _first(found: dict[str, _Session], limit: int) -> list[Hit]:
    """Merge the sessions' orders; between equal rows of two sessions the session written last wins."""
    ranked = [
        (
            place.score,
            age,
            place.tie,
            Hit(sid, place.seq, matched.get(place.seq, 0), newer_matches=_newer(matched, place.seq)),
        )
        for age, (sid, session) in enumerate(found.items())
        for matched in (session.matched,)
        for place in session.order.places
    ]
    return [hit for *_, hit in sorted(ranked, key=lambda each: each[:3])[:limit]]


def _newer(matched: dict[int, int], seq: int) -> int | None:
    """Count the rows after `seq` that match at least as well; None for none."""
    least = matched.get(seq)
    if least is None:
        return None
    return sum(1 for other, count in matched.items() if other > seq and count >= least) or None


def _related(found: Iterable[_Session]) -> dict[str, tuple[str, ...]]:
    merged: dict[str, dict[str, None]] = {}
    for session in found:
        for word, terms in session.order.related.items():
            merged.setdefault(word, {}).update(dict.fromkeys(terms))
    return {word: tuple(terms) for word, terms in merged.items()}


def _shown(hits: list[Hit], found: dict[str, _Session], context: int) -> Iterable[Result]:
    size = results.excerpt_size(len(hits))
    for hit in hits:
        session = found[hit.sid]
        yield results.show(session.connection, hit, session.rows, session.find, size=size, context=context)
