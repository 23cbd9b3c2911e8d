"""The scan itself, in this process."""

import io
import sys

import msgspec
import pytest
import regress
from openmem_store.layout import Layout
from openmem_store.reader import matcher, sandbox, scope
from openmem_store.reader.databases import Source
from openmem_store.reader.excerpts import MOST_LINES

from tests.store.reader.conversation import said, store


def reports(monkeypatch: pytest.MonkeyPatch, job: matcher.Job) -> list[bytes]:
    """Run the child's `main` here, unconfined, and return the lines it reports."""
    said_lines: list[bytes] = []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(msgspec.json.encode(job))))
    monkeypatch.setattr(sandbox, "confine", lambda: None)
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


def test_spans_are_code_points_though_the_engine_counts_bytes() -> None:
    count, spans = matcher.matching_lines(regress.Regex("b+", "m"), "é木bb\nx", frozenset())
    assert (count, spans) == (1, [(1, 2, 4)])


def test_all_lines_are_counted_and_the_last_are_kept() -> None:
    count, spans = matcher.matching_lines(regress.Regex("a", "m"), "\n".join("a" * 20), frozenset({20}))
    assert count == 19
    assert [number for number, _, _ in spans] == list(range(20 - MOST_LINES, 20))


@pytest.mark.parametrize(
    ("pattern", "crosses"),
    [(r"a\nb", True), (r"a\s+b", True), ("[^x]", True), (r"\W", True), ("^a.b$", False), ("a b", False)],
)
def test_patterns_that_may_cross_lines_are_known(pattern: str, crosses: bool) -> None:
    assert matcher.crosses_lines(pattern) is crosses
