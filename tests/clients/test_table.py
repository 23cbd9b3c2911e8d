"""Hold the compatibility page to what was found, and what does not work to its beginning."""

import datetime

import msgspec

from fixtures.clients import table
from fixtures.clients.findings import Findings

GOOD = Findings(
    client="An agent",
    version="1.2.3",
    transport="HTTP/1.1",
    recorded=True,
    trimmed=True,
    searched=True,
    streamed=True,
    subagents=True,
    resumed=True,
    requests=44,
    trims=3,
    refusals=0,
    cache_share=0.9712,
)
DAY = datetime.date(2026, 12, 1)


def test_a_run_is_a_row_and_the_day_is_said() -> None:
    page = table.page([GOOD], DAY)
    assert "on 2026-12-01:" in page
    assert "| An agent | 1.2.3 | HTTP/1.1 | yes | yes | yes | yes | yes | yes | 44 | 3 | 0 | 0.971 |" in page


def test_what_does_not_work_is_said_first_and_what_failed_before_all() -> None:
    page = table.page([msgspec.structs.replace(GOOD, searched=False)], DAY)
    failed = "- **An agent 1.2.3** was not searched."
    assert page.index("## What does not work") < page.index(failed) < page.index(table.DOES_NOT_WORK[0][:60])
    assert page.index(table.DOES_NOT_WORK[-1][:60]) < page.index("## What was tried")
    assert "| **no** |" in page


def test_what_was_not_tried_is_not_said_to_work() -> None:
    page = table.page([msgspec.structs.replace(GOOD, trimmed=None, cache_share=None)], DAY)
    assert "| yes | not tried | yes |" in page
    assert page.rstrip().count("not tried") == 2
    assert "was not trimmed" not in page
