"""Own the search for a regular expression: its syntax check, its time limit, and the answer in full or in part."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import apsw
import msgspec
import regress

from openmem_store import schema
from openmem_store.reader import child, expression, matcher, results, scope, source, syntax
from openmem_store.reader.answers import RefusedError
from openmem_store.reader.results import Answer, Hit, Result
from openmem_store.reader.search import Request
from openmem_store.reader.source import Source

MOST_CHARACTERS = 200
"""Of one pattern."""

SECONDS = 1.0
"""Wall time of one scan over all its sessions."""


def check(pattern: str) -> None:
    """Refuse a pattern that is too long or that JavaScript would not compile. Raises RefusedError."""
    if len(pattern) > MOST_CHARACTERS:
        raise RefusedError(f"pattern must be at most {MOST_CHARACTERS} characters, this one has {len(pattern)}")
    cause = _cause(lambda: expression.compiled(pattern))
    if cause is None:
        return
    flags = expression.flags(pattern)
    place = syntax.position(pattern, lambda part: _cause(lambda: regress.Regex(part, flags)) is None)
    where = "" if place is None else f" at character {place + 1}, where {pattern[place:]!r} begins,"
    raise RefusedError(
        f"pattern is not a JavaScript regular expression: {cause}{where} in {pattern!r}. "
        "Escape a literal with a backslash; write (?i:text) to ignore case and (?<name>…) for a named group"
    )


def _cause(compiled: Callable[[], object]) -> str | None:
    """Return what is wrong with a pattern; None where nothing is."""
    try:
        compiled()
    except regress.RegressError as error:
        return str(error).rstrip(".")
    return None


async def search(
    pattern: str, request: Request, files: dict[str, Path], *, why: str, do: child.Run = child.run
) -> Answer:
    """Search the sessions of `files` (session id to database) for a pattern, which `do` has a child do.

    Raises RefusedError as `check` does.
    """
    check(pattern)
    with ExitStack() as stack:
        sources, skipped = _sources(stack, files)
        job = matcher.Job(pattern, request.scope, request.limit, sources)
        outcome = await do("openmem_store.reader.matcher", msgspec.json.encode(job), seconds=SECONDS)
        report = msgspec.json.decode(outcome.report or b"{}", type=matcher.Report)
        if outcome.report is None and not outcome.timed_out:
            raise RefusedError("pattern ended its process: it needs too much memory; make it simpler")
        lines = Counter(report.lines)
        unshown: dict[str, str] = {}
        shown = results.fitting(_shown(report, sources, request, unshown))
        return Answer(
            mode="lexical",
            scope=why,
            total_matches=report.rows,
            line_matches=lines.total(),
            line_matches_by=scope.breakdown(lines),
            echoes_excluded=report.echoes,
            databases={sid: str(files[sid]) for sid in sources},
            results=shown,
            timed_out=outcome.timed_out,
            hint=_INCOMPLETE if outcome.timed_out else _left_out(shown, report, unshown),
            skipped=unshown | skipped | {sid: results.unreadable(name) for sid, name in report.unreadable.items()},
        )


def _left_out(shown: Sequence[Result], report: matcher.Report, unshown: dict[str, str]) -> str | None:
    return None if unshown else results.left_out(shown, len(report.matches))


_INCOMPLETE = (
    f"stopped after {SECONDS:g} s: the counts are of the newest rows only. Name one session_id, set role, "
    "begin the pattern with ^ and literal text, or use query"
)


def _sources(stack: ExitStack, files: dict[str, Path]) -> tuple[dict[str, Source], dict[str, str]]:
    sources: dict[str, Source] = {}
    skipped: dict[str, str] = {}
    for sid, path in files.items():
        try:
            sources[sid] = stack.enter_context(source.readable(path))
        except (apsw.Error, schema.UnsupportedSchema) as error:
            skipped[sid] = results.unreadable(error)
    return sources, skipped


def _shown(
    report: matcher.Report, sources: dict[str, Source], request: Request, unshown: dict[str, str]
) -> Iterable[Result]:
    """Return what an answer shows of each row; `unshown` gets the sessions of rows that cannot be read, and why."""
    size = results.excerpt_size(len(report.matches))
    with ExitStack() as stack:
        opened: dict[str, tuple[apsw.Connection, scope.Rows]] = {}
        for number, match in enumerate(report.matches):
            newer = sum(1 for other in report.matches[:number] if other.sid == match.sid)
            hit = Hit(
                match.sid,
                match.seq,
                spans=tuple(match.spans),
                matching_lines=match.lines or None,
                newer_matches=newer or None,
            )
            try:
                if match.sid not in opened:
                    connection = source.connect(sources[match.sid])
                    stack.callback(connection.close)
                    opened[match.sid] = connection, scope.Rows(connection, request.scope)
                connection, rows = opened[match.sid]
                shown = results.show(
                    connection, hit, rows, lambda text, skipped: (), size=size, context=request.context
                )
            except results.UNREADABLE as error:
                unshown[match.sid] = results.unreadable(error)
                continue
            yield shown
