"""Scan sessions for a JavaScript regular expression, in a child that may be killed at any moment.

Every line is tested by itself, so a count is what `grep -c` would print. Reports as it goes: when a
line makes the expression backtrack without end, what was counted before it still stands.
"""

import sys
import time
from collections import deque
from typing import cast

import apsw
import msgspec
import regress

from openmem_store.reader import excerpts, sandbox, scope
from openmem_store.reader.databases import Source, connect

FLAGS = "m"
"""`^` and `$` also hold at line ends inside a text, a carriage return included."""

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
    spans: list[excerpts.Span]
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
    connections = {sid: connect(source) for sid, source in job.sources.items()}
    sandbox.confine()
    scan = _Scan(job)
    for sid, connection in connections.items():
        scan.session(sid, connection)
    scan.tell()


class _Scan:
    """One scan over several sessions, and what it found so far."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._expression = regress.Regex(job.pattern, FLAGS)
        self._crosses = crosses_lines(job.pattern)
        self._report = Report()
        self._told = time.monotonic()

    def session(self, sid: str, connection: apsw.Connection) -> None:
        """Scan one session, newest row first."""
        try:
            rows = scope.load(connection, self._job.scope)
            self._report.echoes += rows.echo_count
            for seq in sorted(rows.allowed, reverse=True):
                text = cast("str", connection.execute(_TEXT, (seq,)).get)
                self._row(sid, rows, seq, text)
                if time.monotonic() - self._told >= REPORT_SECONDS:
                    self.tell()
        except (apsw.Error, UnicodeDecodeError) as error:
            self._report.unreadable[sid] = type(error).__name__

    def tell(self) -> None:
        """Report what was found so far."""
        sandbox.report(msgspec.json.encode(self._report))
        self._told = time.monotonic()

    def _row(self, sid: str, rows: scope.Rows, seq: int, text: str) -> None:
        report = self._report
        skipped = rows.echoes.lines.get(seq, frozenset[int]())
        count, spans = matching_lines(self._expression, text, skipped)
        # A match across lines of a row that holds an answer of ours may be in that answer.
        across = self._crosses and not skipped and not count
        if not count and not (across and self._expression.find(text) is not None):
            return
        report.rows += 1
        if count:
            heading = rows.heading(seq)
            report.lines[heading] = report.lines.get(heading, 0) + count
        if len(report.matches) < self._job.limit:
            report.matches.append(Match(sid, seq, count, spans))


_TEXT = "SELECT text FROM main.messages WHERE seq = ?"


def matching_lines(expression: regress.Regex, text: str, skipped: frozenset[int]) -> tuple[int, list[excerpts.Span]]:
    """Return how many lines of a text match, and the last of them. Lines in `skipped` are none."""
    count = 0
    last: deque[tuple[int, str, slice]] = deque(maxlen=excerpts.MOST_LINES)
    find = expression.find
    for number, line in enumerate(text.split("\n"), 1):
        match = find(line)
        if match is not None and number not in skipped:
            count += 1
            last.append((number, line, match.range()))
    return count, [_span(number, line, where) for number, line, where in last]


def _span(number: int, line: str, where: slice) -> excerpts.Span:
    """The engine counts UTF-8 bytes; excerpts are cut by code points."""
    encoded = line.encode()
    start = len(encoded[: where.start].decode(errors="ignore"))
    return number, start, start + len(encoded[where.start : where.stop].decode(errors="ignore"))


def crosses_lines(pattern: str) -> bool:
    """Tell whether a pattern may match across lines, so that a row can match although none of its lines does."""
    return any(part in pattern for part in ("\\n", "\\s", "[^", "\\W", "\\D", "\\S"))
