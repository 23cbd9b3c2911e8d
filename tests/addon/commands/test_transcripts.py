"""Hold what is read of a transcript to what the client sent, byte for byte where it left a note of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from openmem_addon.commands import transcripts
from openmem_addon.commands.history import History
from openmem_addon.commands.pricing import Counts

from tests.addon.commands.recorded import CWD, SID, line, noted, spoken, told, write
from tests.conversations import assistant, result, text, use, user

TALK = [
    user("Read them."),
    assistant("I read.", use("c1"), use("c2")),
    user(result("c2", "two"), result("c1", "one")),
    assistant("Done."),
    user("And now?"),
    assistant("All is read."),
]
AROUND = user("<system-reminder>\nBe kind.\n</system-reminder>", "Read them.")


def read(tmp_path: Path, lines: list[dict[str, Any]]) -> History:
    [history] = transcripts.read(write(tmp_path / "t.jsonl", lines))
    return history


def sent(history: History) -> list[list[dict[str, Any]]]:
    return [json.loads(history.body(request))["messages"] for request in history.requests]


def test_a_noted_session_gives_the_requests_as_they_were_sent(tmp_path: Path) -> None:
    history = read(tmp_path, noted(TALK, around=AROUND))
    assert sent(history) == [[AROUND], [AROUND, *TALK[1:3]], [AROUND, *TALK[1:5]]]
    assert [json.loads(reply) for reply in history.replies] == TALK[5:]
    body = json.loads(history.body(history.requests[0]))
    assert (body["model"], body["system"]) == ("claude-opus-5-5", [text("Be brief.")])
    assert (history.agent, history.sid, history.cwd) == ("claude-code", SID, CWD)
    assert history.began == "2026-10-29T17:00:00Z"


def test_a_session_without_notes_gives_what_was_said(tmp_path: Path) -> None:
    history = read(tmp_path, told(TALK))
    assert sent(history) == [TALK[:1], TALK[:3], TALK[:5]]
    assert [json.loads(reply) for reply in history.replies] == TALK[5:]


def test_the_providers_counts_are_those_of_each_request(tmp_path: Path) -> None:
    for lines in (noted(TALK), told(TALK)):
        history = read(tmp_path, lines)
        assert [request.counted for request in history.requests] == [Counts(10, 20, 30, 4)] * 3


def test_results_that_were_written_one_by_one_are_one_message(tmp_path: Path) -> None:
    lines = [
        *told(TALK[:2]),
        *spoken(user(result("c2", "two")), 2),
        *spoken(user(result("c1", "one")), 2),
        *told(TALK[3:4]),
    ]
    assert sent(read(tmp_path, lines))[1] == TALK[:3]


def test_side_requests_and_retries_add_nothing(tmp_path: Path) -> None:
    lines = noted(TALK)
    title = line("api-request", querySource="generate_session_title", params={}, keep=0, tail=["unknown"])
    again = [each for each in lines if each["type"] == "api-request"][1] | {"keep": 3, "tail": []}
    place = next(number for number, each in enumerate(lines) if each.get("keep") == 1) + 1
    history = read(tmp_path, [title, *lines[:place], again, *lines[place:]])
    assert sent(history) == [TALK[:1], TALK[:3], TALK[:3], TALK[:5]]


def test_a_rewound_session_keeps_both_ways(tmp_path: Path) -> None:
    other = [user("No, this."), assistant("This.")]
    lines = noted(TALK)
    note = line("api-request", querySource="sdk", params={"model": "m"}, keep=4, tail=["another"])
    history = read(tmp_path, [*lines, *spoken(other[0], 9)[:1], note, *spoken(other[1], 9)])
    whole = [json.loads(body)["messages"] for body in history.whole()]
    assert whole[0] == TALK[:5]
    assert whole[1][:4] == TALK[:4]
    assert whole[1][-1] == other[1]


def test_a_note_that_names_an_unknown_message_is_not_trusted(tmp_path: Path) -> None:
    lines = noted(TALK)
    broken = [
        each | {"tail": [*each["tail"], "x", "y", "z"]} if each["type"] == "api-request" else each for each in lines
    ]
    assert sent(read(tmp_path, broken)) == [TALK[:1], TALK[:3], TALK[:5]]


def test_a_compacted_session_begins_anew(tmp_path: Path) -> None:
    summary = spoken(user("This session is being continued."), 6, isCompactSummary=True)
    history = read(tmp_path, [*told(TALK), *summary, *spoken(assistant("Go on."), 7)])
    whole = [json.loads(body)["messages"] for body in history.whole()]
    assert whole == [TALK[:5], [user("This session is being continued."), assistant("Go on.")]]


def test_what_the_client_made_up_as_an_answer_is_none(tmp_path: Path) -> None:
    error = spoken(assistant("API Error"), 9)
    error[0]["message"]["model"] = "<synthetic>"
    assert sent(read(tmp_path, [*told(TALK[:2]), *error])) == [TALK[:1]]


def test_a_prompt_without_an_answer_is_kept(tmp_path: Path) -> None:
    assert sent(read(tmp_path, told(TALK[:1]))) == [TALK[:1]]


def test_a_last_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", told(TALK))
    path.write_text(path.read_text() + '{"type": "assist')
    assert len(transcripts.read(path)[0].requests) == 3


@pytest.mark.parametrize("content", ["", '{"type":"summary"}\n', '{"type":"user"}\n', "[]\n"])
def test_a_file_without_a_conversation_gives_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(content)
    assert transcripts.read(path) == []


def test_a_file_that_is_no_transcript_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("not json\n{}\n")
    with pytest.raises(ValueError, match=r"t\.jsonl: line 1 is not JSON"):
        transcripts.read(path)
