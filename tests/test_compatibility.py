"""Whose rule: the compatibility page tells of the versions that the tests drive, as the tests found them."""

import re
from pathlib import Path

from fixtures.clients import table
from fixtures.clients.pins import pins

PAGE = (Path(__file__).parent.parent / "docs" / "compatibility.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if re.match(r"\| [A-Z].*\d+\.\d+", line)
]

RUNS = {
    "Claude Code": "claude",
    "Codex": "codex",
    "Codex with a login": "codex",
    "OpenCode with Anthropic": "opencode",
    "OpenCode with OpenAI": "opencode",
}
"""What the agent tests run, and whose pin it is."""


def test_every_run_is_told_of_at_its_pinned_version() -> None:
    assert {row[0]: row[1] for row in ROWS} == {title: pins()[name].version for title, name in RUNS.items()}


def test_the_titles_are_those_of_the_tests() -> None:
    tests = "".join((Path(__file__).parent / pin.test).read_text() for pin in pins().values())
    assert set(re.findall(r'title="([^"]+)"', tests)) == set(RUNS)


def test_nothing_that_was_tried_failed_and_the_cache_was_read() -> None:
    assert "**no**" not in PAGE
    for row in ROWS:
        assert row[-2] == "0"
        assert row[-1] == "not tried" or float(row[-1]) >= 0.95


def test_the_day_is_said_and_what_does_not_work_comes_first() -> None:
    assert re.search(r"\bon 20\d\d-\d\d-\d\d:", PAGE)
    assert PAGE.index("## What does not work") < PAGE.index("## What was tried")
    assert all(line in " ".join(PAGE.split()) for line in table.DOES_NOT_WORK)
