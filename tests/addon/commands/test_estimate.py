"""The command as a person runs it, before anything is installed."""

from pathlib import Path

import pytest
from openmem_addon.commands import estimate, pricing
from openmem_store.settings import Settings

from tests.addon.commands.recorded import noted, write
from tests.conversations import chat


@pytest.fixture
def home(empty_home: Path) -> Path:
    write(empty_home / ".claude/projects/-p/one.jsonl", noted(chat(20)))
    return empty_home


@pytest.mark.usefixtures("home")
def test_each_threshold_has_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert estimate.main("estimate", ["--at", "1000", "--at=2000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 session"
    assert lines[2].split()[:2] == ["requests", "prompt"]
    titles = [line[:9].strip() for line in lines[3:6]]
    assert titles == ["as it was", "at 1,000", "at 2,000"]
    figures = [line[9:].split() for line in lines[3:6]]
    assert [row[0] for row in figures] == ["20"] * 3
    assert figures[0][3:5] == ["0", "0"]
    assert int(figures[1][4]) >= 1
    assert f"prices of {pricing.AS_OF}" in lines[7]


def test_it_stores_nothing(home: Path) -> None:
    assert estimate.main("estimate", [str(home / ".claude")]) == 0
    assert not (home / ".local").exists()


def test_without_thresholds_the_settings_decide() -> None:
    ways = estimate.thresholds(Settings(root=Path("/s"), models={"small-*": 5}), ())
    assert {title: [way(model) for model in (None, "small-1")] for title, way in ways.items()} == {
        "as it was": [None, None],
        "as set": [120_000, 5],
    }


def test_a_damaged_file_is_named_and_left_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".claude/projects/-p/two.jsonl").write_text("no json\n{}\n")
    assert estimate.main("estimate", []) == 0
    assert "two.jsonl was left out: two.jsonl: line 1 is not JSON" in capsys.readouterr().err


@pytest.mark.usefixtures("empty_home")
def test_where_there_is_nothing_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert estimate.main("estimate", []) == 1
    assert capsys.readouterr().err == "openmem-context: there is no session to replay\n"


@pytest.mark.parametrize("words", [["--at"], ["--at", "many"], ["--at", "0"], ["--all"], ["/nowhere/at/all"]])
@pytest.mark.usefixtures("empty_home")
def test_words_that_are_none_of_ours_are_refused(words: list[str]) -> None:
    assert estimate.main("estimate", words) == 2
