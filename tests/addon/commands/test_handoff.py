"""Hold the opening prompt to what the session was about, and to the tools that find the rest."""

from pathlib import Path

import apsw
import pytest
from openmem_addon.commands import handoff
from openmem_store import registration
from openmem_store.layout import Layout
from openmem_store.registration import Registration
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter

TALK = [
    Draft("user", "text", None, "<system-reminder>Be kind.</system-reminder>"),
    Draft("user", "text", None, "Paint the shed."),
    Draft("assistant", "text", None, "Which colour?"),
    Draft("user", "text", None, "Copper."),
    Draft("assistant", "tool_use", "paint", "{}"),
    Draft("tool", "tool_result", "paint", "painted"),
    Draft("assistant", "text", None, "It is painted."),
]


@pytest.fixture
def layout(empty_home: Path) -> Layout:
    made = Layout(empty_home / ".local/share/openmem/context")
    made.prepare()
    writer = SessionWriter(made.database("s-1"), version="v")
    for drafts in (TALK[:5], [*TALK[:1], Draft("user", "text", None, "Look around."), *TALK[2:3]], TALK):
        rows = chain(drafts)
        writer.sync(rows, dropped=(), cut=None, owned=0, blobs={}, at="t")
    writer.close()
    registration.write(made, Registration("s-1", cwd="/home/me/shed"))
    return made


@pytest.mark.usefixtures("layout")
def test_it_says_what_the_session_was_about_and_where_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert handoff.main("handoff", ["s-1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "Continue the work of another agent's session, s-1 in /home/me/shed. Its 9 messages are stored"
    )
    assert "It began with this request:\n\n> Paint the shed.\n" in said
    assert "The last thing it was asked:\n\n> Copper.\n" in said
    assert "The last thing it answered, as far as it is stored:\n\n> It is painted.\n" in said
    assert 'smart_compact_search(session_id="s-1"' in said
    assert "Look around" not in said, "that was another conversation of the session"


def test_a_session_that_its_client_compacted_began_with_its_first_request() -> None:
    """And it stands where it stands now, however much longer a part before, or a subagent, was."""
    summary = Draft("user", "text", None, f"{handoff.CONTINUED[0]} that ran out of context.")
    later = chain([summary, Draft("assistant", "text", None, "Next.")])
    task = chain([Draft("user", "text", None, "Look around."), *TALK[2:]])
    rows = [*chain(TALK), *later, *task]
    assert handoff.conversation(rows) == [*chain(TALK), *later]
    more = chain(
        [Draft("user", "text", None, "Stop."), Draft("assistant", "text", None, "Well.")],
        previous=later[-1].fingerprint,
    )
    assert [row.text for row in handoff.conversation([*rows, *more])][-2:] == ["Stop.", "Well."]


@pytest.mark.parametrize("remark", ["Tool loaded.", "[Request interrupted by user for tool use]"])
def test_what_the_client_says_in_a_persons_place_is_no_wish(empty_home: Path, remark: str) -> None:
    made = Layout(empty_home / "context")
    made.prepare()
    writer = SessionWriter(made.database("s-2"), version="v")
    rows = chain([*TALK[:6], Draft("user", "text", None, remark)])
    writer.sync(rows, dropped=(), cut=None, owned=0, blobs={}, at="t")
    writer.close()
    with apsw.Connection(str(made.database("s-2")), flags=apsw.SQLITE_OPEN_READONLY) as connection:
        story = handoff.read(connection)
    assert (story.task, story.wish) == ("Paint the shed.", "Copper.")


def test_a_long_text_is_cut_in_its_middle() -> None:
    story = handoff.Story(1, "a" * 3000, "a" * 3000, "")
    said = handoff.prompt("s", story, cwd=None)
    assert "> [… 1,000 characters …]" in said
    assert "It has no answer yet." in said
    assert "last thing it was asked" not in said


def test_the_newest_conversation_is_found_among_forks() -> None:
    rows = list(chain(TALK))
    fork = chain([Draft("user", "text", None, "No.")], previous=rows[2].fingerprint, thread=rows[0].thread)
    assert handoff.conversation([*rows[:4], *fork, *rows[4:]]) == rows
    assert handoff.conversation([*rows, *fork]) == [*rows[:3], *fork]
    assert handoff.conversation([]) == []


def test_a_window_that_begins_with_the_first_request_again_goes_on_with_it() -> None:
    """As Codex compacts; what its agents write to each other is nobody's request."""
    letter = Draft("user", "text", None, "Message Type: NEW_TASK\nPayload:\nLook around.")
    agent = chain([TALK[0], letter, Draft("assistant", "text", None, "Looking.")])
    window = chain([TALK[0], TALK[1], Draft("assistant", "text", None, "Going on.")])
    rows = [*agent, *[row for row in chain(TALK) if row not in agent], *window[2:]]
    assert handoff.conversation(rows) == list(window)
    rows.append(chain([Draft("assistant", "text", None, "Looked.")], previous=agent[-1].fingerprint)[0])
    assert handoff.conversation(rows) == list(window)


@pytest.mark.usefixtures("layout")
def test_a_session_that_is_not_stored_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert handoff.main("handoff", ["s-2"]) == 1
    assert capsys.readouterr().err == "openmem-context: no session 's-2' is stored\n"


@pytest.mark.parametrize("words", [[], ["a", "b"], ["--all"], ["a/b"]])
def test_words_that_are_none_of_ours_are_refused(words: list[str]) -> None:
    assert handoff.main("handoff", words) == 2
