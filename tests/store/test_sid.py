import json
from pathlib import Path

import pytest
from openmem_store.layout import SUFFIXES, Layout
from openmem_store.sid import checked, sanitize

GOLDEN = json.loads((Path(__file__).parents[2] / "fixtures/ids.json").read_text())


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["why"])
def test_an_id_is_sanitised_as_the_golden_file_says(case: dict[str, str]) -> None:
    assert sanitize(case["raw"]) == case["sid"]


@pytest.mark.parametrize("sid", sorted({case["sid"] for case in GOLDEN} - {None}))
def test_every_file_of_a_hostile_id_lies_directly_in_the_sessions_directory(sid: str, layout: Layout) -> None:
    for suffix in SUFFIXES:
        path = layout.sessions / f"{sid}{suffix}"
        assert path.resolve().parent == layout.sessions.resolve()
        assert len(path.name.encode()) <= 255
        path.touch()


def test_sanitising_twice_changes_nothing() -> None:
    for case in GOLDEN:
        if case["sid"] is not None:
            assert sanitize(case["sid"]) == case["sid"]


@pytest.mark.parametrize("argument", ["a/b", "a\\b", "/", ".", "..", " .. ", "\t.\n", "../x"])
def test_a_tool_argument_that_looks_like_a_path_is_refused(argument: str) -> None:
    with pytest.raises(ValueError, match="must not be"):
        checked(argument)


@pytest.mark.parametrize("argument", ["", " \t\n"])
def test_an_empty_tool_argument_is_refused(argument: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        checked(argument)


def test_a_tool_argument_names_the_session_of_the_agents_own_id() -> None:
    assert checked(" ses:1 ") == "ses_1"
    assert checked("...") == "..."
