"""The scan itself, in this process."""

import io
import sys

import msgspec
import pytest
from openmem_store.layout import Layout
from openmem_store.reader import expression, matcher, sandbox, scope
from openmem_store.reader.answers import MOST_LINES, Span
from openmem_store.reader.source import Source

from tests.store.reader.conversation import said, store


def reports(monkeypatch: pytest.MonkeyPatch, job: matcher.Job) -> list[bytes]:
    """Run the child's `main` here and return the lines it reports."""
    said_lines: list[bytes] = []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(msgspec.json.encode(job))))
    monkeypatch.setattr(sandbox, "leave", lambda: None)
    monkeypatch.setattr(sandbox, "report", said_lines.append)
    matcher.main()
    return said_lines


def test_a_scan_says_it_is_ready_and_reports_unfinished_work(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    database = store(layout, "s", *(said(f"needle {n}") for n in range(3)))
    monkeypatch.setattr(matcher, "REPORT_SECONDS", 0.0)
    job = matcher.Job("needle", scope.Scope(("user",), None, False), 2, {"s": Source(str(database), False)})
    first, *rest = reports(monkeypatch, job)
    assert first == sandbox.READY
    counted = [msgspec.json.decode(line, type=matcher.Report) for line in rest]
    assert [report.rows for report in counted] == [1, 2, 3, 3]
    assert counted[-1].lines == {"user, first turn": 3}
    assert [match.seq for match in counted[-1].matches] == [3, 2]


def lines(pattern: str, text: str, skipped: frozenset[int] = frozenset()) -> tuple[int, list[Span]]:
    compiled = expression.compiled(pattern)
    count, ends = matcher.matching_lines(compiled, text, skipped)
    return count, matcher.spans(compiled.line, text, ends)


def test_spans_are_code_points_though_the_engine_counts_bytes() -> None:
    assert lines("b+", "é木bb\nx\n木木b") == (2, [(1, 2, 4), (3, 9, 10)])


def test_all_lines_are_counted_and_the_last_are_kept() -> None:
    text = "\n".join("a" * 20)
    count, found = lines("a", text)
    assert (count, [number for number, _, _ in found]) == (20, list(range(21 - MOST_LINES, 21)))
    count, found = lines("a", text, frozenset({20}))
    assert (count, [number for number, _, _ in found]) == (19, list(range(20 - MOST_LINES, 20)))


@pytest.mark.parametrize("pattern", ["(?s:a.?)", "a"])
def test_both_ways_to_test_lines_say_the_same(pattern: str) -> None:
    """The first pattern cannot be told to stay on its line, so its lines are tested one by one."""
    assert lines(pattern, "xa\n\nb\néa") == (2, [(1, 1, 2), (4, 7, 8)])
