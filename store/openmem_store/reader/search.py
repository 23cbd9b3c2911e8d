"""Own the search for a query: which rows match and how many, and their order, in one or several sessions.

Hits and counts follow one scope (filters, no echoes); counts are exact whatever the order and limit.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Literal

import apsw
import msgspec

from openmem_store.reader import excerpts, ranking, results, scope, threads, vectors, words
from openmem_store.reader.hybrid import Asked, Hybrid, Search
from openmem_store.reader.known import Known
from openmem_store.reader.results import Answer, Hit, Result
from openmem_store.reader.sessions import Opened, once
from openmem_store.reader.vectors import Nearest


class Request(msgspec.Struct, frozen=True):
    """One search, its arguments checked."""

    scope: scope.Scope
    limit: int
    context: int = 0
    """Rows shown before and after each hit."""
    ranking: str = "best"
    """A key of `ranking.RANKINGS`."""
    mode: Literal["hybrid", "lexical"] | None = None
    """None: by vectors too wherever there are some."""


class _Matches(msgspec.Struct, frozen=True):
    """What one searched session has of the words, its database still open."""

    connection: apsw.Connection
    rows: scope.Rows
    echoes: int
    """Rows that match and are left out."""
    lines: Counter[str]
    """Matching lines by heading."""
    found: list[words.Found]
    matched: dict[int, int]
    """Distinct words of the query in each row that passes the filters."""
    asked: Asked | None
    """How it is asked by vectors too."""


class _Session(msgspec.Struct, frozen=True):
    """One searched session, its rows in order."""

    matches: _Matches
    order: ranking.Order
    near: Nearest | None
    find: results.FindLines


def search(
    query: str,
    request: Request,
    files: dict[str, Path],
    *,
    why: str,
    hybrid: Hybrid | None = None,
    opened: Opened = once,
) -> Answer:
    """Search the sessions of `files` (session id to database) for the words of a query.

    With `hybrid`, also for rows that mean the same, in sessions that have vectors. `opened` opens a file.
    """
    by_vectors = hybrid.begin(query, wanted=request.mode != "lexical") if hybrid else None
    with ExitStack() as stack:
        trying = _Trying()
        known = trying.each(files, lambda sid, path: stack.enter_context(opened(path)))
        matches = trying.each(known, lambda sid, each: _matches(each, files[sid], query, request, by_vectors))
        near = trying.each(matches, lambda sid, each: _nearest(each, request, by_vectors))
        mixed = any(each is not None for each in near.values())
        found = trying.each(near, lambda sid, each: _ordered(matches[sid], each, request, mixed=mixed))
        hits = _first(found, request.limit)
        lines = sum((session.matches.lines for session in found.values()), Counter[str]())
        shown = results.fitting(_shown(hits, found, request.context, trying))
        return Answer(
            mode="hybrid" if mixed else "lexical",
            scope=why,
            total_matches=sum(len(session.matches.matched) for session in found.values()),
            line_matches=lines.total(),
            line_matches_by=scope.breakdown(lines),
            echoes_excluded=sum(session.matches.echoes for session in found.values()),
            databases={sid: str(files[sid]) for sid in found},
            results=shown,
            hint=results.left_out(shown, len(hits) - trying.lost) if query.strip() else _EMPTY,
            related=_related(found.values()),
            vectors=by_vectors.progress if by_vectors else None,
            embedding_error=by_vectors.error if by_vectors else None,
            skipped=trying.skipped,
        )


_EMPTY = "query is empty: give words, or a pattern"


class _Trying:
    """Does one step with every session that the steps before it could read."""

    def __init__(self) -> None:
        self.skipped: dict[str, str] = {}
        """Sessions that could not be read, and why."""
        self.lost = 0
        """Rows that were found and could not be read."""

    def each[T, R](self, sessions: Mapping[str, T], step: Callable[[str, T], R]) -> dict[str, R]:
        done: dict[str, R] = {}
        for sid, session in sessions.items():
            threads.check()
            try:
                done[sid] = step(sid, session)
            except results.UNREADABLE as error:
                self.skipped[sid] = results.unreadable(error)
        return done


def _matches(known: Known, path: Path, query: str, request: Request, by_vectors: Search | None) -> _Matches:
    connection = known.connection
    asked = by_vectors.session(connection, path) if by_vectors else None
    rows = scope.Rows(connection, request.scope, known)
    asked_for = known.vocabulary.glued(words.parse(query, words.Tokenizer(connection)))
    found = [_apart(connection, each, rows) for each in words.find_all(connection, asked_for)]
    everywhere = Counter(chain.from_iterable(each.seqs for each in found))
    if not known.has(everywhere.keys()):
        raise apsw.CorruptError("the index names a row that is not there")
    allowed, excluded = rows.apart(everywhere)
    matched = {seq: count for seq, count in everywhere.items() if seq in allowed}
    lines = Counter[str]()
    for seq, count in words.line_counts(connection, found, allowed, rows.echoes.lines).items():
        lines[rows.heading(seq)] += count
    return _Matches(connection, rows, excluded, lines, found, matched, asked)


def _nearest(matches: _Matches, request: Request, by_vectors: Search | None) -> Nearest | None:
    if by_vectors is None or matches.asked is None:
        return None
    return by_vectors.nearest(matches.connection, matches.asked, request.scope, matches.rows)


def _ordered(matches: _Matches, near: Nearest | None, request: Request, *, mixed: bool) -> _Session:
    """Order one session's rows. `mixed`: another one's are ordered by vectors too, and the two must compare."""
    order = ranking.RANKINGS[request.ranking](
        matches.connection,
        matches.found,
        matches.matched,
        matches.rows,
        request.limit,
        vectors.NOTHING if mixed and near is None else near,
    )
    related = [words.Word(term, (term,)) for terms in order.related.values() for term in terms]
    find = excerpts.matcher([*(each.word for each in matches.found), *related])
    return _Session(matches, order, near, find)


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
        (place.score, age, place.tie, _hit(sid, session, place.seq))
        for age, (sid, session) in enumerate(found.items())
        for place in session.order.places
    ]
    return [hit for *_, hit in sorted(ranked, key=lambda each: each[:3])[:limit]]


def _hit(sid: str, session: _Session, seq: int) -> Hit:
    matched = session.matches.matched
    similarity = session.near.similarity.get(seq) if session.near else None
    return Hit(sid, seq, matched.get(seq, 0), similarity=similarity, newer_matches=_newer(matched, seq))


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


def _shown(hits: list[Hit], found: dict[str, _Session], context: int, trying: _Trying) -> Iterable[Result]:
    size = results.excerpt_size(len(hits))
    for hit in hits:
        session = found[hit.sid]
        matches = session.matches
        shown = trying.each(
            {hit.sid: hit},
            lambda _, hit, matches=matches, session=session: results.show(
                matches.connection, hit, matches.rows, session.find, size=size, context=context
            ),
        )
        trying.lost += not shown
        yield from shown.values()
