"""Scan sessions for a JavaScript regular expression, in a child that may be killed at any moment.

Every line is tested by itself, so a count is what `grep -c` would print. Reports as it goes: when a
line makes the expression backtrack without end, what was counted before it still stands.
"""

import sys
import time
from collections import Counter, deque
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
    expression = regress.Regex(job.pattern, FLAGS)
    connections = {sid: connect(source) for sid, source in job.sources.items()}
    sandbox.confine()
    report = Report()
    clock = _Clock()
    lines = Counter[str]()
    for sid, connection in connections.items():
        try:
            _scan(sid, connection, expression, job, report, lines, clock)
        except (apsw.Error, UnicodeDecodeError) as error:
            report.unreadable[sid] = type(error).__name__
    report.lines = dict(lines)
    _tell(report)


def _scan(
    sid: str,
    connection: apsw.Connection,
    expression: regress.Regex,
    job: Job,
    report: Report,
    lines: Counter[str],
    clock: "_Clock",
) -> None:
    rows = scope.load(connection, job.scope)
    report.echoes += rows.echo_count
    crosses = _crosses_lines(job.pattern)
    for seq in sorted(rows.allowed, reverse=True):
        text = cast("str", connection.execute("SELECT text FROM main.messages WHERE seq = ?", (seq,)).get)
        count, spans = _lines(expression, text, rows.echoes.lines.get(seq, frozenset()))
        if count or (crosses and expression.find(text) is not None):
            report.rows += 1
            if count:
                lines[rows.heading(seq)] += count
            if len(report.matches) < job.limit:
                report.matches.append(Match(sid, seq, count, spans))
        if clock.due():
            report.lines = dict(lines)
            _tell(report)


def _lines(expression: regress.Regex, text: str, skipped: frozenset[int]) -> tuple[int, list[excerpts.Span]]:
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


def _crosses_lines(pattern: str) -> bool:
    """Tell whether a pattern may match across lines, so that a row can match although none of its lines does."""
    return any(part in pattern for part in ("\\n", "\\s", "[^", "\\W", "\\D", "\\S"))


class _Clock:
    """Tell when the next report is due."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def due(self) -> bool:
        now = time.monotonic()
        if now - self._last < REPORT_SECONDS:
            return False
        self._last = now
        return True


def _tell(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()
