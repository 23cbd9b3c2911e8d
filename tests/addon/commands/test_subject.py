"""Hold what is said where no session can be read, and what is returned where one can."""

from pathlib import Path

import apsw
import pytest
from openmem_addon.commands import subject
from openmem_addon.commands.subject import Subject
from openmem_store import schema
from openmem_store.layout import Layout

HELP = "usage: ./run.sh look SESSION"


@pytest.fixture
def layout(empty_home: Path) -> Layout:
    made = Layout(empty_home / ".local/share/openmem/context")
    made.prepare()
    connection = apsw.Connection(str(made.database("s-1")))
    schema.migrate(connection)
    connection.close()
    return made


def version(connection: apsw.Connection) -> int:
    return schema.user_version(connection)


def test_the_session_that_the_words_name_is_read(layout: Layout) -> None:
    found = subject.read("look", ["s-1"], HELP, version)
    assert isinstance(found, Subject)
    assert (found.layout.root, found.session, found.found) == (layout.root, "s-1", schema.VERSION)


def test_the_first_characters_are_enough_where_no_other_session_begins_so(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("0f3c-1", "0f3c-2", "0f"):
        layout.database(name).write_bytes(layout.database("s-1").read_bytes())
    for given, meant in (("s", "s-1"), ("0f3c-2", "0f3c-2"), ("0f", "0f")):
        found = subject.read("look", [given], HELP, version)
        assert isinstance(found, Subject)
        assert found.session == meant
    assert subject.read("look", ["0f3c"], HELP, version) == 1
    assert capsys.readouterr().err == "openmem-context: 2 sessions begin with '0f3c': 0f3c-1, 0f3c-2\n"


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("words", [["--help"], ["-h"]])
def test_help_is_printed_where_it_is_asked_for(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert subject.read("look", words, HELP, version) == 0
    assert capsys.readouterr().out == f"{HELP}\n"


@pytest.mark.usefixtures("layout")
@pytest.mark.parametrize("words", [[], ["s-1", "s-2"], ["--all"], ["../s-1"], [" "]])
def test_words_that_name_no_session_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert subject.read("look", words, HELP, version) == 2
    assert capsys.readouterr().err.startswith("openmem-context: ")


@pytest.mark.usefixtures("layout")
def test_a_session_that_is_not_stored_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert subject.read("look", ["s-2"], HELP, version) == 1
    assert capsys.readouterr().err == "openmem-context: no session 's-2' is stored\n"


def test_a_session_that_cannot_be_read_is_named_without_its_path(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    layout.database("s-1").write_text("this is no database, though it is long enough to be taken for one" * 100)
    assert subject.read("look", ["s-1"], HELP, version) == 1
    assert capsys.readouterr().err == "openmem-context: session 's-1' cannot be read: NotADBError\n"


def test_several_ids_are_found_and_those_that_name_none_or_many_are_said() -> None:
    known = {"0f3c", "0f3c-1", *(f"ab-{number}" for number in range(7))}
    assert subject.wholes(("0f3c", "0f3c-", "ab-6", "ab", "x"), known) == (
        {"0f3c": "0f3c", "0f3c-": "0f3c-1", "ab-6": "ab-6"},
        [
            "7 sessions begin with 'ab': ab-0, ab-1, ab-2, ab-3, ab-4 and 2 more",
            "no session 'x' is stored",
        ],
    )
