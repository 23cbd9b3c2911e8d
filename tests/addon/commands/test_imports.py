"""The command as a person runs it, and an imported session beside the same one through the proxy."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from openmem_addon.commands import imports, transcripts
from openmem_addon.commands.history import zstd
from openmem_addon.commands.terminal import Progress
from openmem_store import registration, retention
from openmem_store.layout import Layout
from openmem_store.registration import Registration
from process import call, reader

from tests.addon.commands.recorded import CWD, SID, noted, rollout, said, told, write
from tests.addon.house import House
from tests.conversations import assistant, body, chat, result, use, user

TALK = [
    user("Read them."),
    assistant("I read.", use("c1")),
    user(result("c1", "the copper lantern\nhangs low")),
    assistant("Done."),
]


@pytest.fixture
def home(empty_home: Path) -> Path:
    write(empty_home / ".claude/projects/-p/one.jsonl", noted(TALK))
    talk = [said("user", "Go."), said("assistant", "Gone.")]
    write(empty_home / ".codex/sessions/2026/10/29/rollout-1.jsonl", rollout(talk, sid="c-1"))
    return empty_home


@pytest.fixture
def layout(empty_home: Path) -> Layout:
    return Layout(empty_home / ".local/share/openmem/context")


def rows(layout: Layout, sid: str) -> list[tuple[object, ...]]:
    with apsw.Connection(str(layout.database(sid)), flags=apsw.SQLITE_OPEN_READONLY) as connection:
        return list(
            connection.execute("SELECT fingerprint, role, kind, name, text, in_context FROM messages ORDER BY seq")
        )


def test_every_agents_history_is_stored_and_registered(
    home: Path, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imports.main("import", []) == 0
    assert capsys.readouterr().out.splitlines() == [
        "imported 7 messages of 2 sessions into ~/.local/share/openmem/context",
        "search them from any agent with the search tools: ./run.sh install registers them",
    ]
    assert [row[1:] for row in rows(layout, SID)] == [
        ("user", "text", None, "Read them.", 1),
        ("assistant", "text", None, "I read.", 1),
        ("assistant", "tool_use", "Read", '{"path":"a.txt"}', 1),
        ("tool", "tool_result", "Read", "the copper lantern\nhangs low", 1),
        ("assistant", "text", None, "Done.", 1),
    ]
    known = registration.read(layout, SID)
    assert known == Registration(SID, agent="claude-code", cwd=CWD, registered_at="2026-10-29T17:00:00Z")
    assert [row[4] for row in rows(layout, "c-1")] == ["Go.", "Gone."]


def test_a_second_import_reads_only_what_grew(home: Path, layout: Layout, capsys: pytest.CaptureFixture[str]) -> None:
    imports.main("import", [])
    write(home / ".claude/projects/-p/one.jsonl", noted([*TALK, user("More."), assistant("No.")]))
    capsys.readouterr()
    assert imports.main("import", []) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "imported 2 messages of 1 session into ~/.local/share/openmem/context",
        "1 file had not changed since the last import",
    ]
    assert len(rows(layout, SID)) == 7


def test_what_was_deleted_from_the_store_comes_back_only_where_it_is_named(
    home: Path, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    imports.main("import", [])
    stored = rows(layout, SID)
    retention.forget(layout, [SID], now=0)
    capsys.readouterr()
    assert imports.main("import", []) == 0
    assert capsys.readouterr().out.splitlines() == [
        "imported 0 messages of 0 sessions into ~/.local/share/openmem/context",
        "2 files had not changed since the last import",
        "1 of them: the session was deleted since; name the file to store it again",
    ]
    assert not layout.database(SID).exists()
    assert imports.main("import", [str(home / ".claude")]) == 0
    assert rows(layout, SID) == stored


async def test_an_imported_session_and_a_proxied_one_are_the_same_rows(tmp_path: Path) -> None:
    house = House(tmp_path / "context")
    talk = chat(10)
    await house.ask(body(*talk[:-1]), sid=SID)
    await house.settle(SID)
    house.close()
    proxied = rows(house.layout, SID)
    assert {row[5] for row in proxied} == {0, 1}, "a part has left the prompt"
    tally = imports.Tally()
    for lines in (noted(talk), told(talk)):
        [history] = transcripts.read(write(tmp_path / "t.jsonl", lines))
        imports.store(house.layout, history, tally)
    both = rows(house.layout, SID)
    assert both[: len(proxied)] == proxied, "no flag moved"
    assert [row[4] for row in both[len(proxied) :]] == [talk[-1]["content"][0]["text"]]
    assert tally.messages == 1


def test_a_session_that_a_proxy_writes_is_left_to_it(
    home: Path, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import sys, pathlib; from openmem_store.writer import SessionWriter; "
        "writer = SessionWriter(pathlib.Path(sys.argv[1]), version='v'); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(layout.database(SID))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert imports.main("import", []) == 0
        other.communicate("")
    assert "1 session in use by a proxy, which stores them itself" in capsys.readouterr().out
    assert imports.main("import", []) == 0
    assert len(rows(layout, SID)) == 5


def test_a_subagent_is_stored_behind_its_session(home: Path, layout: Layout) -> None:
    """Its file is older: the session went on after it."""
    lines = [{**line, "isSidechain": True} for line in told([user("A task."), assistant("It is done.")])]
    inner = write(home / ".claude/projects/-p/one/subagents/agent-1.jsonl", lines)
    os.utime(inner, ns=(1, 1))
    imports.main("import", [str(home / ".claude")])
    assert [row[4] for row in rows(layout, SID)][-3:] == ["Done.", "A task.", "It is done."]


def test_a_registration_that_is_there_stays(home: Path, layout: Layout) -> None:
    mine = Registration(SID, agent="claude-code", cwd="/elsewhere", bank="b", registered_at="t")
    registration.write(layout, mine)
    imports.main("import", [])
    assert registration.read(layout, SID) == mine


def test_a_damaged_file_is_named_and_the_others_are_imported(
    home: Path, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".claude/projects/-p/two.jsonl").write_text("no json\n{}\n")
    assert imports.main("import", []) == 1
    assert capsys.readouterr().err == (
        "openmem-context: ~/.claude/projects/-p/two.jsonl was not imported: two.jsonl: line 1 is not JSON\n"
    )
    assert len(rows(layout, SID)) == 5


def test_broken_lines_are_named_and_the_rest_is_imported(
    home: Path, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".claude/projects/-p/one.jsonl"
    first, rest = path.read_text().split("\n", 1)
    path.write_text(f'{first}\n{{"type":\n{rest}')
    assert imports.main("import", []) == 0
    assert capsys.readouterr().err == "openmem-context: ~/.claude/projects/-p/one.jsonl: 1 broken line passed over\n"
    assert len(rows(layout, SID)) == 5


def test_a_named_file_without_a_session_is_an_error(
    home: Path, layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write(home / "other.jsonl", [{"type": "message", "message": {"role": "user"}}])
    assert imports.main("import", [str(other)]) == 1
    assert capsys.readouterr().err == ("openmem-context: ~/other.jsonl holds no session of Claude Code or Codex\n")
    assert imports.main("import", [str(home)]) == 0


def test_rollouts_that_were_put_away_are_imported_too(home: Path, layout: Layout) -> None:
    talk = [said("user", "Old."), said("assistant", "Older.")]
    away = write(home / ".codex/archived_sessions/rollout-2.jsonl", rollout(talk, sid="c-2"))
    packed = write(home / ".codex/sessions/2026/rollout-3.jsonl", rollout(talk, sid="c-3"))
    packed.with_suffix(".jsonl.zst").write_bytes(zstd.compress(packed.read_bytes()))
    packed.unlink()
    assert imports.main("import", []) == 0
    assert [row[4] for row in rows(layout, "c-2")] == [row[4] for row in rows(layout, "c-3")] == ["Old.", "Older."]
    assert away.exists()


def test_named_files_and_folders_are_imported(home: Path, layout: Layout) -> None:
    assert imports.main("import", [str(home / ".codex")]) == 0
    assert not layout.database(SID).exists()
    assert imports.main("import", [str(home / ".claude/projects/-p/one.jsonl")]) == 0
    assert layout.database(SID).exists()


@pytest.mark.parametrize("words", [["--all"], ["/nowhere/at/all"]])
@pytest.mark.usefixtures("empty_home")
def test_words_that_are_none_of_ours_are_refused(words: list[str]) -> None:
    assert imports.main("import", words) == 2


@pytest.mark.usefixtures("empty_home")
def test_where_nothing_is_found_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert imports.main("import", []) == 1
    assert "no transcripts of Claude Code or Codex were found here" in capsys.readouterr().err


def test_a_person_sees_how_many_files_are_done(home: Path, layout: Layout) -> None:
    found = imports.everything(home, {})
    with Progress("files", len(found), stream=io.StringIO()) as progress:
        imports.run(layout, found, progress)
    assert progress.done == len(found) == 2


async def test_what_is_stored_is_found_by_search_without_a_proxy(home: Path, layout: Layout) -> None:
    imports.main("import", [])
    async with reader(layout.root.parent) as session:
        answer = await call(session, "smart_compact_search", query="copper lantern")
    [hit] = answer["results"]
    assert (hit["session_id"], hit["name"]) == (SID, "Read")


def test_the_book_holds_no_content(home: Path, layout: Layout) -> None:
    imports.main("import", [])
    book = json.loads((layout.root.parent / "imported.json").read_text())
    assert sorted(Path(name).name for name in book["files"]) == ["one.jsonl", "rollout-1.jsonl"]


def test_a_state_folder_that_cannot_be_used_is_said_before_anything_is_read(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (empty_home / "state").touch()
    monkeypatch.setenv("OPENMEM_STATE_DIR", str(empty_home / "state"))
    assert imports.main("import", [str(write(empty_home / "t.jsonl", told([user("A task.")])))]) == 1
    assert capsys.readouterr() == (
        "",
        "openmem-context: the state folder ~/state cannot be used (Not a directory): "
        "name another in OPENMEM_STATE_DIR, or mend this one\n",
    )
