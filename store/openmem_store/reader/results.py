"""Own what an answer shows of a row that was found: its place, its excerpt, the rows beside it."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import cast

import apsw
import msgspec

from openmem_store import schema
from openmem_store.missing import Progress
from openmem_store.reader import excerpts
from openmem_store.reader.answers import MOST_WEIGHT, Span, weight
from openmem_store.reader.scope import Rows

EXCERPT = 1500
"""Characters of one excerpt; less when many rows are shown."""

NEIGHBOUR = 300
"""Characters of a row shown beside a hit."""

_ROOM = MOST_WEIGHT * 2 // 3
"""For the excerpts of one answer; the rest is for everything around them."""

FindLines = Callable[[str, Collection[int]], Sequence[Span]]
"""From a row's text and the numbers of lines to leave out, to the lines that match."""


class Hit(msgspec.Struct, frozen=True):
    """A row chosen to be shown."""

    sid: str
    seq: int
    matched_terms: int | None = None
    """Distinct words of the query in this row; None for a pattern."""
    similarity: float | None = None
    """Cosine to the query; None where vectors were not used or the row has none."""
    spans: tuple[Span, ...] | None = None
    """The lines that match, the last ones, when whoever found the row knows them."""
    matching_lines: int | None = None
    newer_matches: int | None = None


class Neighbour(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row beside a hit, in the same thread."""

    seq: int
    role: str
    kind: str
    text: str
    name: str | None = None


class Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row that matches."""

    session_id: str
    seq: int
    role: str
    kind: str
    in_context: bool
    thread: str
    """First 8 characters: enough to tell a subagent's rows from the main conversation's."""
    created_at: str
    excerpt: str
    name: str | None = None
    matched_terms: int | None = None
    similarity: float | None = None
    """Of the row's head to the query, 1 for the same; given for the rows nearest to it."""
    matching_lines: int | None = None
    """Lines of this row that match; the excerpt shows the last ones. None when it shows the whole row."""
    newer_matches: int | None = None
    """Rows of the session stored later that match at least as well; None for none."""
    blob_ids: tuple[str, ...] = ()
    before: tuple[Neighbour, ...] = ()
    after: tuple[Neighbour, ...] = ()


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one search found."""

    mode: str
    """What the ranking went by: `lexical`, words alone, or `hybrid`, words and vectors."""
    scope: str
    """Which sessions were searched, and why."""
    total_matches: int
    line_matches: int
    line_matches_by: dict[str, int]
    echoes_excluded: int
    """Rows that match but are our own answers, or the calls for them."""
    databases: dict[str, str]
    results: tuple[Result, ...]
    timed_out: bool = False
    hint: str | None = None
    related: dict[str, tuple[str, ...]] = {}
    """Terms of the store that stood for a word of the query; rows with only these have matched_terms 0."""
    vectors: Progress | None = None
    """How many rows have a vector, still wait, and were given up; None where embedding is off and none has one."""
    embedding_error: str | None = None
    """Why no vectors were used although there are some."""
    skipped: dict[str, str] = {}
    """Sessions that could not be read, and why."""
    search_index: dict[str, str] = {}
    """Sessions whose index is damaged, and what this answer of them is from."""


def show(connection: apsw.Connection, hit: Hit, rows: Rows, find: FindLines, *, size: int, context: int) -> Result:
    """Read one row and say what an answer shows of it. `size` bounds the excerpt, in characters.

    Raises GoneError where the row is not in the file that is read.
    """
    found = cast("tuple[str, int, str, str | None, str] | None", connection.execute(_SHOWN, (hit.seq,)).fetchone())
    if found is None:
        raise GoneError
    thread, in_context, text, blob_id, created_at = found
    row = rows[hit.seq]
    excerpt, matching = _excerpt(text, hit, rows.echoes.lines.get(hit.seq, ()), find, size)
    return Result(
        session_id=hit.sid,
        seq=hit.seq,
        role=row.role,
        kind=row.kind,
        in_context=bool(in_context),
        thread=thread[:8],
        created_at=created_at,
        excerpt=excerpt,
        name=row.name,
        matched_terms=hit.matched_terms,
        similarity=None if hit.similarity is None else round(hit.similarity, 3),
        matching_lines=matching,
        newer_matches=hit.newer_matches,
        blob_ids=(blob_id,) if blob_id else (),
        before=tuple(reversed(_beside(connection, (thread, row.seq), rows, _BEFORE, context))),
        after=_beside(connection, (thread, row.seq), rows, _AFTER, context),
    )


def excerpt_size(count: int) -> int:
    """Return how many characters each of `count` excerpts may take."""
    return min(EXCERPT, _ROOM // max(1, count))


def fitting(shown: Iterable[Result]) -> tuple[Result, ...]:
    """Return the first results that fit into one answer."""
    room = MOST_WEIGHT
    kept: list[Result] = []
    for result in shown:
        room -= weight(msgspec.json.encode(result).decode())
        if room < 0 and kept:
            break
        kept.append(result)
    return tuple(kept)


def left_out(shown: Sequence[Result], found: int) -> str | None:
    """Say that an answer was full before its last row; None when it was not."""
    if len(shown) == found:
        return None
    return f"the answer was full after {len(shown)} of {found} rows: lower limit or context, or name more words"


class GoneError(Exception):
    """A row that was found is not there any more: another file took the place of the session's."""


UNREADABLE = (apsw.Error, schema.UnsupportedSchema, UnicodeDecodeError, OSError, GoneError)
"""What the reading of one session may raise."""

DAMAGED = "damaged"

_REASONS = {
    "UnsupportedSchema": "written by another version of this program, which this one does not read",
    "NothingStored": "empty: nothing was stored in it yet",
    "NotADBError": DAMAGED,
    "CorruptError": DAMAGED,
    "SQLError": DAMAGED,  # a statement of ours does not fit the file
    "UnicodeDecodeError": DAMAGED,
    "GoneError": "replaced while it was searched; try again",
    "BusyError": "locked for over a second; try again",
}


def unreadable(error: Exception | str) -> str:
    """Say why a session file was skipped, without its path. `error` may be the name of an exception's type."""
    name = error if isinstance(error, str) else type(error).__name__
    return _REASONS.get(name, f"not readable ({name})")


_SHOWN = "SELECT thread, in_context, text, blob_id, created_at FROM main.messages WHERE seq = ?"
_BEFORE = "SELECT seq, text FROM main.messages WHERE thread = ? AND seq < ? ORDER BY seq DESC"
_AFTER = "SELECT seq, text FROM main.messages WHERE thread = ? AND seq > ? ORDER BY seq"


def _beside(
    connection: apsw.Connection, place: tuple[str, int], rows: Rows, statement: str, count: int
) -> tuple[Neighbour, ...]:
    """Return the next rows in the thread that are no echo."""
    found: list[Neighbour] = []
    if not count:
        return ()
    for seq, text in cast("Iterable[tuple[int, str]]", connection.execute(statement, place)):
        beside = rows[seq]
        if not rows.is_echo(beside):
            kept = _without(text, rows.echoes.lines.get(seq, ()))
            found.append(Neighbour(seq, beside.role, beside.kind, excerpts.head(kept, NEIGHBOUR), beside.name))
        if len(found) == count:
            break
    return tuple(found)


def _without(text: str, skipped: Collection[int]) -> str:
    if not skipped:
        return text
    return "\n".join(line for number, line in enumerate(text.split("\n"), 1) if number not in skipped)


def _excerpt(text: str, hit: Hit, skipped: Collection[int], find: FindLines, size: int) -> tuple[str, int | None]:
    if len(text) <= min(excerpts.WHOLE, size) and not skipped:
        return text, None
    spans = hit.spans if hit.spans is not None else find(text, skipped)
    if spans:
        return excerpts.lines(text, spans, size), hit.matching_lines or len(spans)
    return excerpts.head(_without(text, skipped), size), None
