"""Scan sessions for a JavaScript regular expression, in a child that may be killed at any moment.

Every line is tested by itself, so a count is what `grep -c` would print. Reports as it goes: when a
line makes the expression backtrack without end, what was counted before it still stands.
"""

import sys
import time
from collections import deque
from collections.abc import Iterator

import apsw
import msgspec
import regress

from openmem_store import schema
from openmem_store.reader import expression, sandbox, scope
from openmem_store.reader.answers import MOST_LINES, Span
from openmem_store.reader.source import Source, connect

_UNREADABLE = (apsw.Error, schema.UnsupportedSchema, UnicodeDecodeError)

REPORT_SECONDS = 0.05
"""Between two reports of unfinished work."""


class Job(msgspec.Struct, frozen=True):
    """One scan."""

    pattern: str
    scope: scope.Scope
    limit: int
    """Rows to describe; all are counted."""
    sources: dict[str, Source]
    """Session id to file, in the order to scan."""


class Match(msgspec.Struct, frozen=True):
    """A row that matches."""

    sid: str
    seq: int
    lines: int
    """How many of its lines match; 0 when only the text across lines does."""
    spans: list[Span]
    """The last of these lines."""


class Report(msgspec.Struct):
    """What the scan found so far."""

    rows: int = 0
    lines: dict[str, int] = {}
    """Matching lines by heading."""
    matches: list[Match] = []
    """The newest rows."""
    echoes: int = 0
    unreadable: dict[str, str] = {}
    """Exception names of sessions that failed, by session id."""


def main() -> None:
    """Read a job from stdin and report on stdout."""
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    sandbox.ready()
    scan = _Scan(job)
    for sid, connection in list(scan.opened()):
        scan.session(sid, connection)
    scan.tell()
    sandbox.leave()


class _Scan:
    """One scan over several sessions, and what it found so far."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._expression = expression.compiled(job.pattern)
        self._report = Report()
        self._told = time.monotonic()

    def opened(self) -> Iterator[tuple[str, apsw.Connection]]:
        """Open the sessions. One may have been deleted since the job was given."""
        for sid, source in self._job.sources.items():
            try:
                yield sid, connect(source)
            except _UNREADABLE as error:
                self._report.unreadable[sid] = type(error).__name__

    def session(self, sid: str, connection: apsw.Connection) -> None:
        """Scan one session, newest row first."""
        try:
            rows = scope.Rows(connection, self._job.scope)
            for row, text in rows.texts(self._expression.phrases):
                self._row(sid, rows, row, text)
                if time.monotonic() - self._told >= REPORT_SECONDS:
                    self.tell()
        except _UNREADABLE as error:
            self._report.unreadable[sid] = type(error).__name__

    def tell(self) -> None:
        """Report what was found so far."""
        sandbox.report(msgspec.json.encode(self._report))
        self._told = time.monotonic()

    def _row(self, sid: str, rows: scope.Rows, row: scope.Row, text: str) -> None:
        report = self._report
        skipped = rows.echoes.lines.get(row.seq, frozenset[int]())
        count, last = matching_lines(self._expression, text, skipped)
        # A match across lines of a row that holds an answer of ours may be in that answer.
        across = self._expression.crosses and not skipped and not count
        if not count and not (across and self._expression.line.find(text) is not None):
            return
        if rows.is_echo(row):
            report.echoes += 1
            return
        report.rows += 1
        if count:
            heading = rows.heading(row.seq)
            report.lines[heading] = report.lines.get(heading, 0) + count
        if len(report.matches) < self._job.limit:
            report.matches.append(Match(sid, row.seq, count, spans(self._expression.line, text, last)))


def matching_lines(pattern: expression.Expression, text: str, skipped: frozenset[int]) -> tuple[int, list[int]]:
    """Return how many lines of a text match, and where the last of them end, in UTF-8 bytes of the text.

    Lines whose number is in `skipped` are none.
    """
    if pattern.lines is None or skipped:
        return _one_by_one(pattern.line, text, skipped)
    found = pattern.lines.find_iter(text + "\n") or ()
    last = deque(enumerate(found, 1), maxlen=MOST_LINES)
    return last[-1][0] if last else 0, [match.range().stop - 1 for _, match in last]


def _one_by_one(line: regress.Regex, text: str, skipped: frozenset[int]) -> tuple[int, list[int]]:
    count = end = 0
    last: deque[int] = deque(maxlen=MOST_LINES)
    for number, each in enumerate(text.split("\n"), 1):
        end += len(each.encode()) + 1
        if number not in skipped and line.find(each) is not None:
            count += 1
            last.append(end - 1)
    return count, list(last)


def spans(line: regress.Regex, text: str, ends: list[int]) -> list[Span]:
    """Return the lines that end at these bytes, and where in them the match is."""
    found: list[Span] = []
    encoded = text.encode()
    for end in ends:
        start = encoded.rfind(b"\n", 0, end) + 1
        match = line.find(encoded[start:end].decode())
        assert match is not None
        where = match.range()
        number = encoded.count(b"\n", 0, start) + 1
        found.append((number, *_code_points(encoded, start + where.start, start + where.stop)))
    return found


def _code_points(encoded: bytes, start: int, end: int) -> tuple[int, int]:
    """The engine counts UTF-8 bytes; excerpts are cut by code points."""
    begin = len(encoded[:start].decode(errors="ignore"))
    return begin, begin + len(encoded[start:end].decode(errors="ignore"))
