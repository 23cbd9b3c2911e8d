"""Hold what is read of a rollout to what Codex sent: every item, and a request before each answer."""

import json
from pathlib import Path
from typing import Any

import pytest
from openmem_addon.commands import rollouts
from openmem_addon.commands.history import History
from openmem_addon.commands.pricing import Counts

from tests.addon.commands.recorded import CWD, SID, rollout, said, write

CALL = {"type": "function_call", "call_id": "c1", "name": "exec", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}
REASONING = {"type": "reasoning", "summary": [], "encrypted_content": "x"}
TALK = [said("developer", "Be brief."), said("user", "Go."), REASONING, CALL, OUTPUT, said("assistant", "Done.")]


def read(tmp_path: Path, items: list[dict[str, Any]], **more: Any) -> History:
    [history] = rollouts.read(write(tmp_path / "rollout-1.jsonl", rollout(items, **more)))
    return history


def sent(history: History) -> list[list[dict[str, Any]]]:
    return [json.loads(history.body(request))["input"] for request in history.requests]


def test_a_request_stands_before_each_answer(tmp_path: Path) -> None:
    history = read(tmp_path, TALK)
    assert sent(history) == [TALK[:2], TALK[:5]]
    assert [json.loads(reply) for reply in history.replies] == TALK[5:]
    assert json.loads(history.body(history.requests[0]))["model"] == "gpt-5.5"
    assert (history.agent, history.sid, history.cwd) == ("codex", SID, CWD)


def test_a_subagent_belongs_to_its_parents_session(tmp_path: Path) -> None:
    assert read(tmp_path, TALK, thread="other").sid == SID


def test_the_providers_count_is_parted_into_what_is_billed_alike(tmp_path: Path) -> None:
    usage = {"input_tokens": 100, "cached_input_tokens": 60, "cache_write_input_tokens": 30, "output_tokens": 4}
    count = {"line": "event_msg", "type": "token_count", "info": {"last_token_usage": usage}}
    history = read(tmp_path, [*TALK[:4], count, *TALK[4:]])
    assert [request.counted for request in history.requests] == [Counts(10, 60, 30, 4), None]


def test_a_compacted_session_begins_anew(tmp_path: Path) -> None:
    short = [said("user", "Go."), said("user", "A summary.")]
    compacted = {"line": "compacted", "message": "", "replacement_history": short}
    history = read(tmp_path, [*TALK, compacted, said("user", "On."), said("assistant", "Yes.")])
    whole = [json.loads(body)["input"] for body in history.whole()]
    assert whole == [TALK, [*short, said("user", "On."), said("assistant", "Yes.")]]


def test_a_fork_begins_with_the_part_of_the_other_session_that_it_names(tmp_path: Path) -> None:
    """It may be a fork itself, and put away; without it, what the file holds is read."""
    first = [{**line, "ordinal": number} for number, line in enumerate(rollout(TALK, sid="one"))]
    second = [
        {**line, "ordinal": number}
        for number, line in enumerate(rollout([said("user", "On."), said("assistant", "Yes.")], sid="two"), 8)
    ]
    third = rollout([said("user", "Or this."), said("assistant", "No.")], sid="three")
    second[0]["payload"]["history_base"] = {"thread_id": "one", "end_ordinal_exclusive": 8}
    third[0]["payload"]["history_base"] = {"thread_id": "two", "end_ordinal_exclusive": 11}
    old = write(tmp_path / "archived_sessions/rollout-a-one.jsonl", first)
    write(tmp_path / "sessions/2026/rollout-b-two.jsonl", second)
    path = write(tmp_path / "sessions/2026/rollout-c-three.jsonl", third)
    [history] = rollouts.read(path)
    assert history.sid == "three"
    assert sent(history) == [[*TALK, said("user", "On."), said("user", "Or this.")]]
    assert [json.loads(reply) for reply in history.replies] == [said("assistant", "No.")]
    old.unlink()
    assert sent(rollouts.read(path)[0]) == [[said("user", "On."), said("user", "Or this.")]]
    third[0]["payload"]["history_base"] = {"thread_id": "../../*", "end_ordinal_exclusive": 11}
    assert sent(rollouts.read(write(path, third))[0]) == [[said("user", "Or this.")]]


def test_a_prompt_without_an_answer_is_kept(tmp_path: Path) -> None:
    assert sent(read(tmp_path, TALK[:2])) == [TALK[:2]]


def test_a_file_without_a_session_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "rollout-1.jsonl", rollout(TALK)[1:])
    with pytest.raises(ValueError, match="names no session"):
        rollouts.read(path)
