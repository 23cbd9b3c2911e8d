"""Hold what is read of a transcript to what the client sent, byte for byte where it left a note of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from openmem_addon.commands import transcripts
from openmem_addon.commands.history import History
from openmem_addon.commands.pricing import Counts

from tests.addon.commands.recorded import CWD, SID, line, name, noted, spoken, told, write
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


def test_the_items_of_two_requests_are_the_same_bytes(tmp_path: Path) -> None:
    """Each made anew would be as much memory as requests times messages."""
    for lines in (noted(TALK), told(TALK)):
        first, *_, last = read(tmp_path, lines).requests
        assert [one is two for one, two in zip(first.items, last.items, strict=False)] == [True] * len(first.items)


def test_half_of_a_surrogate_pair_is_sent_as_it_was_written(tmp_path: Path) -> None:
    talk = [user("Read \ud83d."), *TALK[1:]]
    for lines in (noted(talk), told(talk)):
        history = read(tmp_path, lines)
        assert sent(history)[0] == talk[:1]
        [body] = history.whole()
        assert history.route.adapter.parse(body).items[0].drafts[0].text == "Read \ufffd."


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
    note = line("api-request", querySource="sdk", params={"model": "m"}, keep=4, tail=[name(other[0])])
    history = read(tmp_path, [*lines, *spoken(other[0], 9), note, *spoken(other[1], 9)])
    assert sent(history)[:3] == [TALK[:1], TALK[:3], TALK[:5]]
    whole = [json.loads(body)["messages"] for body in history.whole()]
    assert whole == [TALK, [*TALK[:4], *other]]


def test_a_rewound_session_without_notes_keeps_both_ways(tmp_path: Path) -> None:
    """A line names the one before it; between two of them others may stand, which hold no message."""
    lines = [{**each, "uuid": f"u{number}", "parentUuid": f"u{number - 1}"} for number, each in enumerate(told(TALK))]
    hidden = line("attachment", uuid="a1", parentUuid=lines[-3]["uuid"])
    other = [user("No, this."), assistant("This.")]
    back = [
        *spoken(other[0], 9, uuid="b1", parentUuid="a1"),
        *spoken(other[1], 10, uuid="b2", parentUuid="b1"),
    ]
    whole = [json.loads(body)["messages"] for body in read(tmp_path, [*lines, hidden, *back]).whole()]
    assert whole == [TALK, [*TALK[:4], *other]]


def test_a_prompt_that_was_sent_as_a_block_is_known(tmp_path: Path) -> None:
    lines = noted(TALK)
    prompt = next(each for each in lines if each["type"] == "user")
    prompt["message"] = {"role": "user", "content": "Read them."}
    assert sent(read(tmp_path, lines))[0] == TALK[:1]


def test_notes_that_leave_out_what_was_said_are_not_trusted(tmp_path: Path) -> None:
    earlier = [user("Before."), assistant("There were no notes yet.")]
    history = read(tmp_path, [*told(earlier), *noted(TALK)[1:]])
    assert sent(history)[-1] == [*earlier, *TALK[:5]]


def test_the_results_of_calls_may_stand_between_the_blocks_of_an_answer(tmp_path: Path) -> None:
    first, second, third = spoken(TALK[1], 1)
    one, two = (spoken(user(result(call, text)), 2) for call, text in (("c1", "one"), ("c2", "two")))
    lines = [*told(TALK[:1]), first, second, *one, third, *two, *spoken(TALK[3], 3)]
    assert sent(read(tmp_path, lines))[1] == [*TALK[:2], user(result("c1", "one"), result("c2", "two"))]


def test_subagents_in_the_same_file_are_threads_of_their_own(tmp_path: Path) -> None:
    tasks = [[user(f"Task {number}."), assistant(f"Done {number}.")] for number in (1, 2)]
    side = [
        [
            *spoken(task, 20, isSidechain=True, uuid=f"p{number}", parentUuid=None),
            *spoken(answer, 21, isSidechain=True, uuid=f"q{number}", parentUuid=f"p{number}"),
        ]
        for number, (task, answer) in enumerate(tasks)
    ]
    mixed = [side[0][0], side[1][0], side[1][1], side[0][1]]
    lines = told(TALK)
    path = write(tmp_path / "t.jsonl", [*lines[:4], *mixed, *lines[4:]])
    histories = transcripts.read(path)
    assert [[json.loads(body)["messages"] for body in each.whole()] for each in histories] == [
        [TALK],
        *([each] for each in tasks),
    ]
    assert {each.sid for each in histories} == {SID}


def test_a_file_of_a_subagent_alone_is_its_thread(tmp_path: Path) -> None:
    lines = [{**each, "isSidechain": True} for each in told(TALK)]
    assert sent(read(tmp_path, lines)) == [TALK[:1], TALK[:3], TALK[:5]]


def test_a_resumed_session_has_the_id_it_has_now(tmp_path: Path) -> None:
    """Older versions began a new file with the lines of the session before."""
    later = [{**each, "sessionId": "now"} for each in told(TALK[2:])]
    assert read(tmp_path, [*told(TALK[:2]), *later]).sid == "now"


def test_a_broken_line_costs_no_other(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", told(TALK))
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, '{"type": "user", "mess\n', *others]))
    [history] = transcripts.read(path)
    assert (sent(history)[-1], history.broken) == (TALK[:5], 1)


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
    assert whole == [TALK, [user("This session is being continued."), assistant("Go on.")]]


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
