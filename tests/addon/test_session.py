"""Hold a session to the order in which things commit, and to the view a thread is committed to, whatever fails."""

import asyncio
import json
import os
import random
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openmem_addon import session as session_module
from openmem_addon import trimstate
from openmem_addon.core import anthropic, rewrite, texts
from openmem_addon.core.usage import Usage
from openmem_store import blobs
from openmem_store.queue import QueueFull
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter, WriterBusy

from fixtures.provider.wire import Json
from tests.addon.core.proxied import refusal, strings
from tests.addon.house import AT, NOW, SID, House
from tests.conversations import (
    MARK,
    TOOLS,
    Script,
    assistant,
    body,
    chat,
    encode,
    loop,
    marks,
    result,
    scripts,
    talk,
    text,
    thinking,
    tool,
    use,
    user,
    written,
)

Open = Callable[..., House]

LONG = "line of output\n" * 400
SCHEMA = {"tools": [], "output_config": {"format": {"type": "json_schema"}}}


def grown(turns: int) -> Json:
    """Return a session of `turns` answered questions and a new one; nine of them are over the threshold."""
    return body(*chat(turns + 1)[:-1])


SHORT, OVER = grown(1), grown(9)


def pointers(request: Json) -> int:
    return strings(request["messages"]).count("[openmem: continuing session s-1; ")


def instructed(request: Json) -> bool:
    return texts.STANDING_INSTRUCTION in strings(request.get("system"))


async def trimmed(house: House) -> Json:
    """Bring a session to its first trim; return the forwarded request."""
    await house.ask(SHORT)
    return await house.ask(OVER)


class Broken:
    """Stands for a part of the store that fails until it is mended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception) -> None:
        self.failing = True
        self.calls = 0
        works = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.failing:
                raise error
            return works(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)


# --- the plain way -----------------------------------------------------------------------------------------


async def test_a_new_thread_is_instructed_and_its_rows_are_stored(house: House) -> None:
    forwarded = await house.ask(body(user("go"), assistant("yes"), user("more")))
    await house.settle()
    assert forwarded["system"] == [text(texts.STANDING_INSTRUCTION)]
    assert house.rows() == [("user", "go", 1), ("assistant", "yes", 1), ("user", "more", 1)]


async def test_a_resent_history_adds_no_row(house: House) -> None:
    for _ in range(3):
        await house.ask(SHORT)
    *before, last = SHORT["messages"]
    await house.ask(body(*before, user({**last["content"][0], "cache_control": MARK})))
    await house.settle()
    assert len(house.rows()) == 3


async def test_a_trim_drops_what_is_stored_and_leaves_a_pointer(house: House) -> None:
    forwarded = await trimmed(house)
    await house.settle()
    assert pointers(forwarded) == 1
    assert len(forwarded["messages"]) == 3
    flags = house.select("SELECT in_context, trimmed_at_seq, trimmed_at FROM messages ORDER BY seq")
    assert flags == [(1, None, None), *[(0, 19, AT)] * 16, (1, None, None), (1, None, None)]
    before, after, dropped = house.events("trim", "tokens_before, tokens_after, dropped")[0]
    assert (dropped, before > 1000 > after) == (16, True)
    assert house.events("trim", "version, at") == [("proxy:0123456789ab", AT)]


async def test_between_trims_a_request_extends_the_one_before(house: House) -> None:
    first = await trimmed(house)
    grew = body(*OVER["messages"], assistant("so"), user("next"))
    second = await house.ask(grew)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["messages"][len(first["messages"]) :] == [assistant("so"), user("next")]
    assert second["system"] == first["system"]


async def test_a_restart_goes_on_with_the_same_bytes(open_house: Open) -> None:
    house = open_house()
    await trimmed(house)
    grew = body(*OVER["messages"], assistant("so"), user("next"))
    before = await house.send(grew)
    house.answer(before)
    await house.settle()
    house.close()
    again = open_house()
    assert (await again.send(grew)).body == before.body
    assert again.lines == house.lines == []


async def test_usage_is_booked_with_its_columns_and_calibrates(house: House) -> None:
    request = body(
        *chat(1),
        user(text("question", cache_control=MARK)),
        tools=[tool("Read", cache_control=MARK), tool("smart_compact_search")],
        system=[text("be brief", cache_control=MARK)],
    )
    outcome = await house.send(request)
    house.answer(outcome, Usage(31, 2048, None, 27, final=True))
    await house.settle()
    columns = "model, thread_root, trimmed, input_tokens, cache_read_tokens, cache_creation_tokens, output_tokens"
    root = house.select("SELECT fingerprint FROM messages WHERE seq = 1")[0][0]
    assert house.events("usage", columns) == [("claude-opus-5-5", root, 0, 31, 2048, None, 27)]
    assert house.events("usage", "breakpoints, breakpoint_at") == [(3, "tools,system,m-1")]
    sample = house.state().sample(f"main/{root}", "claude-opus-5-5")
    assert sample is not None
    assert sample.prompt == 2079


async def test_usage_says_whether_a_request_was_trimmed(house: House) -> None:
    await trimmed(house)
    await house.ask(body(*OVER["messages"], assistant("so"), user("next")))
    await house.settle()
    assert house.events("usage", "trimmed, breakpoints, breakpoint_at") == [(0, 0, None), (2, 0, None), (1, 0, None)]


async def test_a_report_beyond_reason_is_kept_as_reported_and_calibrates_nothing(house: House) -> None:
    await house.ask(SHORT, usage=Usage(675_947_905))
    await house.ask(SHORT, usage=Usage(675_947_905))
    await house.settle()
    assert house.events("usage", "input_tokens") == [(675_947_905,)] * 2
    assert house.state().samples == {}
    assert [line for line in house.lines if "not credible" in line] == house.lines
    assert len(house.lines) == 1


async def test_a_report_moves_the_next_estimate(house: House) -> None:
    assert pointers(await house.ask(grown(2), usage=Usage(990))) == 0
    assert pointers(await house.ask(grown(3))) == 1


@pytest.mark.parametrize(
    ("ttl", "idle", "cuts"),
    [({}, 300, 0), ({}, 301, 1), ({"ttl": "1h"}, 3_600, 0), ({"ttl": "1h"}, 3_601, 1)],
)
async def test_a_session_left_alone_until_its_cache_expired_is_trimmed_early(
    open_house: Open, ttl: dict[str, str], idle: int, cuts: int
) -> None:
    def asked(turns: int) -> Json:
        *before, last = grown(turns)["messages"]
        return body(*before, user({**last["content"][0], "cache_control": {**MARK, **ttl}}))

    house = open_house(trim_tokens=4000, cold_trim_fraction=0.25)
    await house.ask(asked(9))
    await house.settle()
    house.close()
    house = open_house(trim_tokens=4000, cold_trim_fraction=0.25)
    house.now = NOW + timedelta(seconds=idle)
    assert pointers(await house.ask(asked(10))) == cuts


# --- the order of a change ---------------------------------------------------------------------------------


@pytest.fixture
def order(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note what is written, when it is there."""
    noted: list[str] = []

    def note(owner: Any, name: str, word: str) -> None:
        works = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            made = works(*args, **kwargs)
            noted.append(word)
            return made

        monkeypatch.setattr(owner, name, call)

    note(blobs, "write", "blob")
    note(SessionWriter, "sync", "rows")
    note(trimstate, "write", "state")
    return noted


async def test_a_trim_commits_rows_then_state_then_the_body(house: House, order: list[str]) -> None:
    await house.ask(SHORT)
    await house.settle()
    order.clear()
    outcome = await house.send(OVER)
    assert order == ["rows", "state"]
    assert pointers(json.loads(outcome.body)) == 1


async def test_a_first_compression_commits_its_blob_first(house: House, order: list[str]) -> None:
    outcome = await house.send(body(user("go"), assistant(use("t")), user(result("t", LONG))))
    assert order == ["blob", "rows", "state"]
    forwarded = json.loads(outcome.body)
    blob = house.select("SELECT blob_id FROM messages WHERE kind = 'tool_result'")[0][0]
    assert f'smart_compact_get(id="{blob}")' in strings(forwarded)
    assert LONG not in strings(forwarded)
    assert blobs.read(house.layout, blob) == LONG
    assert [row[1] for row in house.rows()][-1] == LONG


async def test_a_first_request_commits_its_view_before_the_body(house: House, order: list[str]) -> None:
    await house.send(SHORT)
    assert "state" in order
    assert house.state().threads


async def test_a_request_that_changes_no_view_waits_for_no_row(house: House) -> None:
    await house.ask(SHORT)
    with house.busy_writer():
        outcome = await house.send(grown(2))
    assert instructed(json.loads(outcome.body))
    await house.settle()
    assert len(house.rows()) == 5


# --- refusals ----------------------------------------------------------------------------------------------


async def test_a_refused_request_is_not_remembered_as_sent(house: House) -> None:
    await house.ask(SHORT)
    await house.settle()
    before = {key: thread.sent for key, thread in house.state().threads.items()}
    house.refuse(await house.send(grown(2)))
    await house.settle()
    assert {key: thread.sent for key, thread in house.state().threads.items()} == before


async def test_a_refusal_does_not_undo_what_a_later_request_sent(house: House) -> None:
    await house.ask(SHORT)
    refused = await house.send(grown(2))
    later = await house.send(grown(3))
    house.answer(later)
    house.refuse(refused)
    await house.settle()
    assert [thread.sent.items for thread in house.state().threads.values() if thread.sent] == [7]


async def test_a_refused_trim_stays(house: House) -> None:
    await house.ask(SHORT)
    first = await house.send(OVER)
    house.refuse(first)
    second = await house.send(OVER)
    assert second.body == first.body


# --- what fails --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (SessionWriter, "sync", RuntimeError("disk")),
        (trimstate, "write", OSError(28, "No space left on device")),
        (anthropic, "render", KeyError("render")),
        (rewrite.trim, "plan", IndexError("plan")),
    ],
    ids=["rows", "state", "render", "plan"],
)
async def test_a_failure_while_trimming_sends_the_committed_view_and_heals_later(
    house: House, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception
) -> None:
    await house.ask(SHORT)
    await house.settle()
    broken = Broken(monkeypatch, owner, name, error)
    forwarded = json.loads((await house.send(OVER)).body)
    assert pointers(forwarded) == 0
    if name != "render":
        assert instructed(forwarded)
    assert house.sessions.fail_opens >= 1
    assert all("question" not in line for line in house.lines)
    assert any(f"fail-open {type(error).__name__} at " in line for line in house.lines)
    broken.failing = False
    assert pointers(await house.ask(OVER)) == 1
    await house.settle()
    assert sum(in_context == 0 for _, _, in_context in house.rows()) == 16
    assert (type(error).__name__,) in house.events("fail_open", "error")


async def test_a_render_that_fails_once_sends_the_committed_view(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await trimmed(house)
    works = anthropic.render
    failures = iter([KeyError("x")])

    def fails_once(*args: Any) -> bytes:
        for error in failures:
            raise error
        return works(*args)

    monkeypatch.setattr(anthropic, "render", fails_once)
    grew = body(*OVER["messages"], assistant("so"), user("next"))
    forwarded = await house.ask(grew)
    assert pointers(forwarded) == 1
    assert instructed(forwarded)


async def test_a_locked_database_sends_the_committed_view_and_heals_later(house: House) -> None:
    await house.ask(SHORT)
    await house.settle()
    with house.locked():
        forwarded = await house.ask(OVER)
        assert (pointers(forwarded), instructed(forwarded), len(forwarded["messages"])) == (0, True, 19)
        await house.settle()
    assert pointers(await house.ask(OVER)) == 1
    await house.settle()
    assert len(house.rows()) == 19
    assert ("BusyError",) in house.events("fail_open", "error") or any("BusyError" in line for line in house.lines)


async def test_a_store_that_hangs_sends_the_committed_view_in_time(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.ask(SHORT)
    await house.settle()
    monkeypatch.setattr(session_module, "PATIENCE_S", 0.3)
    with house.busy_writer():
        forwarded = json.loads((await house.send(OVER)).body)
    assert (pointers(forwarded), instructed(forwarded)) == (0, True)
    monkeypatch.setattr(session_module, "PATIENCE_S", 10.0)
    await house.settle()
    assert all(not thread.views for thread in house.state().threads.values())
    assert [row[2] for row in house.rows()] == [1] * 19
    assert pointers(await house.ask(OVER)) == 1


async def test_a_core_that_hangs_sends_the_body_as_it_came(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.ask(SHORT)
    go = threading.Event()
    monkeypatch.setattr(session_module, "PATIENCE_S", 0.2)
    monkeypatch.setattr(rewrite, "decide", lambda *_, **__: go.wait())
    outcome = await house.send(OVER)
    go.set()
    assert (outcome.body, outcome.ticket) == (encode(OVER), None)
    assert house.sessions.fail_opens == 2


async def test_a_body_that_cannot_be_taken_apart_passes_as_it_came(house: House) -> None:
    raw = b'{"messages": [], "messages": []}'
    outcome = await house.send(raw)
    assert (outcome.body, outcome.ticket) == (raw, None)
    assert len(house.lines) == 1
    assert "fail-open NotSplicable at source.py:" in house.lines[0]


async def test_rows_that_could_not_be_written_come_with_the_next_request(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Broken(monkeypatch, SessionWriter, "sync", RuntimeError("disk"))
    for turns in (1, 2):
        assert instructed(await house.ask(grown(turns)))
    await house.settle()
    assert house.rows() == []
    assert len([line for line in house.lines if "fail-open RuntimeError" in line]) == 1
    broken.failing = False
    await house.ask(grown(3))
    await house.settle()
    assert len(house.rows()) == 7


async def test_a_full_queue_stops_new_cuts_but_not_the_committed_view(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await trimmed(house)
    with monkeypatch.context() as full, house.busy_writer():
        house.queue.call(SID, lambda _: None, size=1)
        full.setattr(house.queue, "_max_bytes", 0)
        again = await house.ask(body(*OVER["messages"], assistant("so"), user("next")))
    assert pointers(again) == 1
    await house.settle()


async def test_a_session_that_cannot_become_ours_is_shown_its_committed_view(
    open_house: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_house()
    before = await trimmed(first)
    await first.settle()
    first.close()
    again = open_house()
    for error in (PermissionError(13, "denied"), QueueFull("full")):
        broken = Broken(monkeypatch, SessionWriter, "__init__", error)
        assert await again.ask(OVER) == before
        broken.failing = False
        monkeypatch.undo()
    assert await again.ask(OVER) == before
    await again.settle()


async def test_an_unreadable_state_is_set_aside_by_its_owner_and_begun_anew(open_house: Open) -> None:
    house = open_house()
    house.layout.trim(SID).write_bytes(b"{")
    assert instructed(await house.ask(SHORT))
    await house.settle()
    assert house.layout.trim(SID).with_name("s-1.trim.json.unreadable").read_bytes() == b"{"
    assert house.state().threads
    assert len(house.lines) == 1


async def test_a_state_that_cannot_be_read_stops_every_change(house: House) -> None:
    house.layout.trim(SID).mkdir()
    outcome = await house.send(SHORT)
    assert outcome.body == encode(SHORT)
    house.layout.trim(SID).rmdir()
    assert instructed(await house.ask(SHORT))


# --- two processes -----------------------------------------------------------------------------------------


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    """Make every session another process's."""
    return Broken(monkeypatch, SessionWriter, "__init__", WriterBusy("taken"))


async def test_a_session_of_another_process_is_rendered_and_not_written(
    open_house: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = open_house()
    before = await trimmed(owner)
    await owner.settle()
    owner.close()
    rows, state = owner.rows(), owner.layout.trim(SID).read_bytes()
    taken = Broken(monkeypatch, SessionWriter, "__init__", WriterBusy("taken"))
    second = open_house()
    for _ in range(3):
        assert await second.ask(OVER) == before
    assert (await second.send(grown(14))).body is not None
    await asyncio.wrap_future(second.disk.submit(lambda: None))
    assert second.rows() == rows
    assert second.layout.trim(SID).read_bytes() == state
    assert len(second.lines) == 1
    assert "another proxy writes it" in second.lines[0]
    taken.failing = False
    assert await second.ask(OVER) == before
    await second.settle()
    assert second.events("usage", "trimmed")[-1] == (1,)


async def test_a_state_of_another_process_is_never_set_aside(open_house: Open, taken: Broken) -> None:
    house = open_house()
    house.layout.trim(SID).write_bytes(b'{"version":99}')
    outcome = await house.send(SHORT)
    assert outcome.body == encode(SHORT)
    assert house.layout.trim(SID).read_bytes() == b'{"version":99}'


async def test_a_new_thread_of_another_process_passes_unchanged(open_house: Open, taken: Broken) -> None:
    house = open_house()
    assert (await house.send(SHORT)).body == encode(SHORT)
    assert not house.layout.database(SID).exists()


async def test_a_session_lost_to_another_process_is_read_from_disk_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An idle session's writer is closed to make room; another proxy may take the session then."""
    await house.ask(SHORT)
    await house.settle()
    lost = Broken(monkeypatch, SessionWriter, "sync", WriterBusy("taken"))
    refused = Broken(monkeypatch, SessionWriter, "__init__", WriterBusy("taken"))
    house.queue._drop(SID)  # as the queue does with the one unused longest
    forwarded = await house.ask(OVER)
    assert (pointers(forwarded), instructed(forwarded)) == (0, True)
    assert any("another proxy writes it" in line for line in house.lines)
    state = house.layout.trim(SID).read_bytes()
    await house.ask(grown(10))
    assert house.layout.trim(SID).read_bytes() == state
    lost.failing = refused.failing = False
    assert pointers(await house.ask(OVER)) == 1
    await house.settle()


# --- what is allowed ---------------------------------------------------------------------------------------


async def test_observe_stores_and_changes_no_byte(open_house: Open) -> None:
    house = open_house(mode="observe")
    for request in (SHORT, OVER, body(user("go"), assistant(use("t")), user(result("t", LONG)))):
        outcome = await house.send(request)
        assert outcome.body == encode(request)
        house.answer(outcome, Usage(5))
    await house.settle()
    assert len(house.rows()) == 22
    assert len(house.events("usage", "id")) == 3


async def test_observe_and_off_show_a_changed_thread_as_it_is_committed(open_house: Open) -> None:
    house = open_house()
    before = await trimmed(house)
    await house.settle()
    house.close()
    for off in ({"mode": "observe"}, {"proxy_enabled": False}):
        other = open_house(**off)
        assert await other.ask(OVER) == before
        grew = body(*OVER["messages"], *loop(9, ask="more")[1:], assistant("so"), user("next"))
        forwarded = await other.ask(grew)
        assert forwarded["messages"][:3] == before["messages"]
        await other.settle()
        other.close()


async def test_off_leaves_a_thread_that_was_never_changed_alone(open_house: Open) -> None:
    house = open_house(proxy_enabled=False)
    for request in (SHORT, OVER):
        outcome = await house.send(request)
        assert (outcome.body, outcome.ticket) == (encode(request), None)
    await house.settle()
    assert house.rows() == []
    assert not house.layout.trim(SID).exists()


async def test_the_instruction_can_be_turned_off_and_stays_where_it_was(open_house: Open) -> None:
    house = open_house()
    await house.ask(SHORT)
    await house.settle()
    house.close()
    off = open_house(standing_instruction=False)
    assert instructed(await off.ask(grown(2)))
    assert not instructed(await off.ask(body(user("another"))))


async def test_signed_reasoning_of_a_thread_never_seen_passes_raw_until_the_first_trim(house: House) -> None:
    def adopted(turns: int) -> Json:
        return body(user("go"), assistant(thinking(), "yes"), *chat(turns), user("more"))

    outcome = await house.send(adopted(1))
    house.answer(outcome)
    assert outcome.body == encode(adopted(1))
    forwarded = await house.ask(adopted(9))
    assert (pointers(forwarded), instructed(forwarded)) == (1, True)
    assert "signature" not in json.dumps(forwarded)
    await house.settle()
    assert house.rows()[1] == ("assistant", "a thought", 0)


@pytest.mark.parametrize("request_body", [SHORT, OVER])
async def test_without_our_tools_nothing_changes_and_rows_are_stored(house: House, request_body: Json) -> None:
    without = {**request_body, "tools": [*TOOLS]}
    outcome = await house.send(without)
    assert outcome.body == encode(without)
    await house.settle()
    assert len(house.rows()) == len(without["messages"])


async def test_tools_that_come_later_allow_the_next_cut_and_tools_that_go_leave_the_view(house: House) -> None:
    await house.ask({**SHORT, "tools": [*TOOLS]})
    forwarded = await house.ask(OVER)
    assert (pointers(forwarded), instructed(forwarded)) == (1, True)
    for _ in range(2):
        without = await house.ask({**OVER, "tools": [*TOOLS]})
        assert without["messages"] == forwarded["messages"]
    assert len([line for line in house.lines if "no longer offers" in line]) == len(house.lines) == 1


async def test_tools_need_not_be_offered_where_the_setting_says_so(open_house: Open) -> None:
    house = open_house(require_tools=False)
    assert instructed(await house.ask({**SHORT, "tools": []}))


async def test_a_bystander_passes_and_leaves_no_trace(house: House) -> None:
    request = {**OVER, "tools": [*TOOLS]}
    outcome = await house.send(request, sid=None)
    assert (outcome.body, outcome.ticket) == (encode(request), None)
    assert list(house.layout.sessions.iterdir()) == []


async def test_a_request_without_a_name_that_offers_our_tools_is_a_session(house: House) -> None:
    outcome = await house.send(SHORT, sid=None)
    assert instructed(json.loads(outcome.body))
    assert outcome.ticket is not None
    sid = outcome.ticket.session.sid
    assert sid.startswith("fp-")
    house.answer(outcome)
    await house.settle(sid)
    counted = await house.send(grown(3), sid=None, path="/v1/messages/count_tokens")
    assert counted.ticket is not None
    assert not counted.ticket.billed
    await house.settle(sid)
    assert len(house.rows(sid)) == 3


async def test_every_request_is_recorded_where_the_setting_says_so(open_house: Open) -> None:
    house = open_house(record_all=True)
    request = {**SHORT, "tools": [*TOOLS]}
    outcome = await house.send(request, sid=None)
    assert outcome.body == encode(request)
    assert outcome.ticket is not None


# --- a trim on demand --------------------------------------------------------------------------------------


def force(house: House) -> Path:
    flag = house.layout.force(SID)
    flag.touch()
    return flag


async def test_a_person_can_ask_for_a_trim(house: House) -> None:
    await house.ask(SHORT)
    flag = force(house)
    assert pointers(await house.ask(grown(2))) == 1
    await house.settle()
    assert not flag.exists()


@pytest.mark.parametrize(
    ("request_body", "headers", "path"),
    [
        ({**grown(2), "tools": [*TOOLS]}, {}, "/v1/messages"),
        (grown(2), {"x-claude-code-agent-id": "a1"}, "/v1/messages"),
        (grown(2), {"x-claude-code-request-class": "auxiliary"}, "/v1/messages"),
        (grown(2), {"x-claude-code-request-class": "compaction"}, "/v1/messages"),
        ({**grown(2), **SCHEMA}, {}, "/v1/messages"),
        (grown(2), {}, "/v1/messages/count_tokens"),
    ],
    ids=["no tools", "subagent", "auxiliary", "compaction", "title", "count"],
)
async def test_only_a_main_request_with_our_tools_uses_up_the_flag(
    house: House, request_body: Json, headers: dict[str, str], path: str
) -> None:
    await house.ask(SHORT)
    flag = force(house)
    await house.ask(request_body, headers=headers, path=path)
    await house.settle()
    assert flag.exists()


@pytest.mark.parametrize("settings", [{"mode": "observe"}, {"proxy_enabled": False}])
async def test_a_proxy_that_may_not_trim_leaves_the_flag(open_house: Open, settings: dict[str, Any]) -> None:
    house = open_house()
    await house.ask(SHORT)
    await house.settle()
    house.close()
    other = open_house(**settings)
    flag = force(other)
    await other.ask(grown(2))
    await other.settle()
    assert flag.exists()


async def test_a_trim_on_demand_that_makes_a_prompt_no_shorter_is_said(house: House) -> None:
    await house.ask(SHORT)
    force(house)
    tiny = body(user("a"), assistant("b"), user("c"), assistant("d"), user("e"))
    assert pointers(await house.ask(tiny)) == 1
    await house.settle()
    before, after = house.events("trim", "tokens_before, tokens_after")[0]
    assert house.lines == [
        "openmem-context: session s-1: a trim that was asked for made its prompt no shorter: "
        f"{before} tokens before, {after} after"
    ]
    assert json.loads(house.layout.notice(SID).read_bytes()) == {"moved": 0, "kept": 3}


async def test_a_trim_that_failed_leaves_the_flag(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.ask(SHORT)
    await house.settle()
    flag = force(house)
    broken = Broken(monkeypatch, SessionWriter, "sync", RuntimeError("disk"))
    assert pointers(await house.ask(grown(2))) == 0
    await house.settle()
    assert flag.exists()
    broken.failing = False
    assert pointers(await house.ask(grown(2))) == 1


# --- requests that move nothing ----------------------------------------------------------------------------


PASSIVE: dict[str, tuple[dict[str, str], str]] = {
    "a token count": ({}, "/v1/messages/count_tokens?beta=true"),
    "an auxiliary request": ({"x-claude-code-request-class": "auxiliary"}, "/v1/messages"),
    "a compaction": ({"x-claude-code-compaction": "auto"}, "/v1/messages"),
}


@pytest.mark.parametrize(("headers", "path"), PASSIVE.values(), ids=PASSIVE)
async def test_a_request_beside_the_session_gets_the_committed_view_and_moves_nothing(
    house: House, headers: dict[str, str], path: str
) -> None:
    before = await trimmed(house)
    await house.settle()
    state, rows = house.layout.trim(SID).read_bytes(), house.rows()
    grew = body(*OVER["messages"], *loop(9, ask="more")[1:], assistant("so"), user("summarise"))
    outcome = await house.send(grew, headers=headers, path=path)
    forwarded = json.loads(outcome.body)
    assert forwarded["messages"][:3] == before["messages"]
    assert len(forwarded["messages"]) == 3 + len(grew["messages"]) - 19
    house.answer(outcome, Usage(7))
    await house.settle()
    assert house.layout.trim(SID).read_bytes() == state
    added = house.rows()[len(rows) :]
    assert house.rows()[: len(rows)] == rows
    assert len(added) == (19 if "x-claude-code-compaction" in headers else 0)
    assert "summarise" not in [text for _, text, _ in added]
    counted = path.endswith("true")
    assert len(house.events("usage", "id")) == 2 + (not counted)
    if not counted:
        assert house.events("usage", "input_tokens, thread_root, trimmed")[-1] == (7, None, 1)


@pytest.mark.parametrize(("headers", "path"), PASSIVE.values(), ids=PASSIVE)
async def test_a_request_beside_a_thread_never_seen_passes_as_it_came(
    house: House, headers: dict[str, str], path: str
) -> None:
    outcome = await house.send(OVER, headers=headers, path=path)
    assert outcome.body == encode(OVER)
    house.answer(outcome)
    await house.settle()
    assert house.rows() == []
    assert not house.layout.trim(SID).exists()


async def test_a_title_before_the_first_request_is_no_thread_of_the_session(house: House) -> None:
    title = body(user("<session>go</session>"), **SCHEMA)
    assert (await house.send(title)).body == encode(title)
    await house.ask(SHORT)
    await house.settle()
    assert [row[1] for row in house.rows()] == [message["content"][0]["text"] for message in SHORT["messages"]]


# --- lanes -------------------------------------------------------------------------------------------------


async def test_a_subagent_has_threads_of_its_own_and_its_rows_beside(house: House) -> None:
    agent = {"x-claude-code-agent-id": "a1", "x-claude-code-request-class": "subagent"}
    await house.ask(SHORT)
    await house.ask(body(user("sub question")), headers=agent)
    forwarded = await house.ask(OVER)
    assert pointers(forwarded) == 1
    sub = await house.ask(body(user("sub question"), assistant("so"), user("more")), headers=agent)
    assert pointers(sub) == 0
    await house.settle()
    assert sorted(key.partition("/")[0] for key in house.state().threads) == ["a1", "main"]
    assert ("user", "sub question", 1) in house.rows()


async def test_a_lane_moves_only_the_flags_of_rows_it_stored_first(house: House) -> None:
    """A fork of a session sends its history again; that it trims says nothing of what the main lane sends."""
    history = OVER["messages"][:7]
    await house.ask(body(*history))
    agent = {"x-claude-code-agent-id": "fork", "x-claude-code-request-class": "subagent"}
    forked = await house.ask(body(*OVER["messages"], assistant("so"), *chat(2, start=20), user("end")), headers=agent)
    assert pointers(forked) == 1
    await house.settle()
    flags = {text: flag for _, text, flag in house.rows()}
    assert all(flags[message["content"][0]["text"]] == 1 for message in history)
    assert 0 in flags.values()


# --- a client's own compaction -----------------------------------------------------------------------------

SUMMARY = body(user("This session is being continued: all went well."), assistant("good"), user("go on"))


async def test_a_session_that_goes_on_under_another_name_right_after_its_first_reply_keeps_its_reasoning(
    house: House,
) -> None:
    """What was signed behind our instruction is refused without it."""
    began = await house.ask(body(user("go")))
    reply = assistant(thinking(), "so")
    forked = await house.ask(body(user("go"), reply, user("next")), sid="s-2")
    assert forked["system"] == began["system"]
    assert forked["messages"][1] == reply


@pytest.mark.parametrize("said", [True, False], ids=["by a header", "by its request"])
async def test_a_compaction_of_the_client_takes_the_old_thread_out_of_context(house: House, said: bool) -> None:
    await house.ask(SHORT)
    if not said:
        await house.ask(grown(1), headers={"x-claude-code-compaction": "auto"})
    headers = {"x-claude-code-context-compacted": "auto"} if said else {}
    await house.ask(SUMMARY, headers=headers)
    await house.settle()
    kept = "SELECT in_context, trimmed_at_seq, trimmed_at FROM messages ORDER BY seq"
    assert house.select(kept) == [(0, None, AT)] * 3 + [(1, None, None)] * 3


async def test_the_results_that_only_a_compaction_carries_are_stored(house: House) -> None:
    """A client whose window is full compacts before it sends them in any other request."""
    await house.ask(SHORT)
    step = [*SHORT["messages"], assistant(use("toolu_1")), user(result("toolu_1", "the last page"), "Summarise all.")]
    await house.ask(body(*step), headers={"x-claude-code-compaction": "auto"})
    await house.ask(SUMMARY)
    await house.settle()
    stored = house.rows()
    assert [(role, flag) for role, _, flag in stored[3:5]] == [("assistant", 0), ("tool", 0)]
    assert stored[4][1] == "the last page"
    assert "Summarise all." not in [text for _, text, _ in stored]


async def test_a_compaction_that_came_to_nothing_takes_nothing_out(house: House) -> None:
    await house.ask(SHORT)
    await house.ask(SHORT, headers={"x-claude-code-compaction": "auto"})
    await house.ask(grown(2))
    await house.ask(body(user("another thread")))
    await house.settle()
    assert {row[2] for row in house.rows()} == {1}


async def test_a_compaction_whose_first_try_fails_still_takes_the_old_thread_out(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.ask(SHORT)
    await house.ask(grown(1), headers={"x-claude-code-compaction": "auto"})
    await house.settle()
    broken = Broken(monkeypatch, trimstate, "write", OSError(28, "full"))
    await house.ask(SUMMARY)
    broken.failing = False
    await house.settle()
    assert [row[2] for row in house.rows()][:3] == [0, 0, 0]


WINDOW = {"x-codex-window-id": "t:1"}


async def test_a_later_window_takes_the_turns_it_begins_with_over_from_the_one_before(house: House) -> None:
    """Codex keeps what the user said and puts the rest into an item that only the provider can read."""
    await house.ask(SHORT, headers={"x-codex-window-id": "t:0"})
    kept = SHORT["messages"][0]
    for later in (body(kept), body(kept, assistant("on it"), user("go on"))):
        await house.ask(later, headers=WINDOW)
    await house.settle()
    assert [flag for _, _, flag in house.rows()] == [1, 0, 0, 1, 1]
    assert len(house.state().threads) == 2


async def test_a_window_that_follows_one_we_did_not_see_takes_over_from_the_last_we_saw(house: House) -> None:
    await house.ask(SHORT, headers={"x-codex-window-id": "t:0"})
    await house.ask(body(user("another beginning")), headers={"x-codex-window-id": "t:3"})
    await house.settle()
    assert [flag for _, _, flag in house.rows()] == [0, 0, 0, 1]


async def test_a_window_of_one_agent_takes_nothing_from_another(house: House) -> None:
    await house.ask(SHORT, headers={"session-id": "t", "thread-id": "t", "x-codex-window-id": "t:0"})
    await house.ask(
        body(user("another task")), headers={"session-id": "t", "thread-id": "u", "x-codex-window-id": "u:1"}
    )
    await house.settle()
    assert {flag for _, _, flag in house.rows()} == {1}


async def test_a_person_can_ask_for_a_trim_in_a_later_window_too(house: House) -> None:
    await house.ask(grown(1), headers=WINDOW)
    house.layout.force(SID).touch()
    assert pointers(await house.ask(grown(6), headers=WINDOW)) == 1
    await house.settle()
    assert not house.layout.force(SID).exists()


# --- at once -----------------------------------------------------------------------------------------------


async def test_twenty_requests_at_once_leave_as_they_would_one_by_one(open_house: Open, tmp_path: Path) -> None:
    requests = [(grown(turns), f"agent-{turns % 3}" if turns % 3 else "") for turns in range(1, 21)]

    def headers(lane: str) -> dict[str, str]:
        return {"x-claude-code-agent-id": lane} if lane else {}

    serial = House(tmp_path / "serial")
    one_by_one = [(await serial.send(request, headers=headers(lane))).body for request, lane in requests]
    await serial.settle()
    rows = serial.select("SELECT text FROM messages ORDER BY text")
    serial.close()

    house = open_house()
    outcomes = await asyncio.gather(*(house.send(request, headers=headers(lane)) for request, lane in requests))
    assert [outcome.body for outcome in outcomes] == one_by_one
    for outcome in outcomes:
        house.answer(outcome)
    await house.settle()
    assert house.select("SELECT text FROM messages ORDER BY text") == rows
    assert house.lines == []
    assert house.sessions.fail_opens == 0


async def test_no_request_waits_for_the_answer_to_another(house: House) -> None:
    unanswered = [await house.send(grown(turns)) for turns in (1, 2, 3)]
    assert all(instructed(json.loads(outcome.body)) for outcome in unanswered)


async def test_no_session_waits_for_another(house: House) -> None:
    with house.busy_writer("stuck"):
        waiting = asyncio.create_task(house.send(OVER, sid="stuck"))
        await house.ask(SHORT, sid="free")
        assert not waiting.done()
    await waiting


async def test_a_cancelled_request_ends_its_flight(house: House) -> None:
    with house.busy_writer():
        task = asyncio.create_task(house.send(SHORT))
        await house.ask(SHORT, sid="other")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await house.settle()
    outcome = await house.send(SHORT)
    assert outcome.ticket is not None
    assert outcome.ticket.session.flights == 1
    house.answer(outcome)
    assert outcome.ticket.session.flights == 0


async def test_idle_sessions_are_forgotten_and_read_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await trimmed(house)
    monkeypatch.setattr(type(house.sessions), "MOST_IDLE", 2)
    for number in range(6):
        await house.ask(SHORT, sid=f"other-{number}")
    assert await house.ask(OVER) == before
    await house.settle()
    assert len(house.rows()) == 19


async def test_a_request_in_flight_keeps_its_session(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(house.sessions), "MOST_IDLE", 1)
    flying = await house.send(SHORT)
    for number in range(4):
        await house.ask(SHORT, sid=f"other-{number}")
    house.answer(flying, Usage(77))
    await house.ask(SHORT, sid=SID, usage=None)
    await house.settle()
    assert [sample.prompt for known in house.state().samples.values() for sample in known.values()] == [77]


# --- requests that send only what is new -------------------------------------------------------------------


def said(*words: str, **more: object) -> Json:
    """Return a request on the Responses wire that keeps its response."""
    items = [{"role": "user", "content": word} for word in words]
    tools = [{"type": "function", "name": "mcp__openmem__smart_compact_search", "parameters": {}}]
    return {"model": "m-1", "input": items, "tools": tools, "store": True, **more}


def told(name: str, words: str) -> Usage:
    """Return what the tap reads of an answer that the provider keeps."""
    return Usage(50, response_id=name, output=(Draft("assistant", "text", None, words),))


async def test_a_session_of_continued_responses_is_stored_whole_under_one_instruction(house: House) -> None:
    """What the model said is in none of its requests."""
    asked = [said("go"), said("next", previous_response_id="resp_1"), said("last", previous_response_id="resp_2")]
    for number, request in enumerate(asked, 1):
        answer = told(f"resp_{number}", f"answer {number}")
        forwarded = await house.ask(request, path="/v1/responses", usage=answer)
        assert forwarded == {**request, "instructions": texts.STANDING_INSTRUCTION}
    await house.settle()
    spoken = ["go", "answer 1", "next", "answer 2", "last"]
    rows = chain(Draft("assistant" if "answer" in words else "user", "text", None, words) for words in spoken)
    stored = house.select("SELECT fingerprint, thread, text FROM messages ORDER BY seq")
    assert stored == [(row.fingerprint, row.thread, row.text) for row in rows]
    assert house.events("usage", "trimmed, input_tokens") == [(0, 50)] * 3
    assert house.lines == []


async def test_a_response_that_was_continued_after_a_restart_goes_on_with_its_rows(open_house: Open) -> None:
    """All but the reply itself, which nobody holds by then."""
    house = open_house()
    await house.ask(said("go"), path="/v1/responses", usage=told("resp_1", "so"))
    await house.settle()
    house.close()
    house = open_house()
    await house.ask(said("next", previous_response_id="resp_1"), path="/v1/responses")
    await house.settle()
    rows = chain([Draft("user", "text", None, "go"), Draft("assistant", "text", None, "so")])
    (after,) = chain([Draft("user", "text", None, "next")], previous=rows[1].fingerprint, thread=rows[0].fingerprint)
    stored = house.select("SELECT fingerprint, thread FROM messages ORDER BY seq")
    assert stored == [(row.fingerprint, row.thread) for row in (rows[0], after)]


async def test_a_request_that_continues_a_response_we_did_not_see_passes_and_is_said_once(house: House) -> None:
    request = said("next", previous_response_id="resp_9")
    for _ in range(2):
        outcome = await house.send(request, path="/v1/responses")
        assert (outcome.body, outcome.ticket) == (encode(request), None)
    await house.settle()
    assert house.rows() == []
    assert len(house.lines) == 1
    assert "continues a response we did not see" in house.lines[0]


async def test_a_request_that_continues_a_response_is_never_trimmed(open_house: Open) -> None:
    house = open_house(trim_tokens=10, compress_tokens=1)
    await house.ask(said("go"), path="/v1/responses", usage=Usage(50, response_id="resp_1"))
    force(house)
    output = {"type": "function_call_output", "call_id": "c", "output": LONG}
    request = {**said(), "input": [output], "previous_response_id": "resp_1"}
    forwarded = await house.ask(request, path="/v1/responses")
    assert forwarded == {**request, "instructions": texts.STANDING_INSTRUCTION}


# --- whole sessions ----------------------------------------------------------------------------------------


async def live(root: Path, script: Script, seed: int) -> None:
    """Play a session through files, restarts and refusals; hold the store to what was forwarded last."""
    chance = random.Random(seed)
    limits = {"trim_tokens": 1200, "compress_tokens": 700}
    house = House(root, **limits)
    client = talk(script)
    forwarded: Json | None = None
    try:
        while True:
            request = client.send(forwarded) if forwarded is not None else next(client)
            if chance.random() < 0.1:
                house.layout.force(SID).touch()
            if chance.random() < 0.15:
                house.refuse(await house.send(written(script, request)))
            outcome = await house.send(written(script, request))
            forwarded = json.loads(outcome.body)
            assert refusal(forwarded) is None
            house.answer(outcome, Usage(len(outcome.body) // 3))
            await house.settle()
            shown = set(marks(strings(forwarded["messages"])))
            sent = set(marks(strings(request["messages"])))
            for _, stored, in_context in house.rows():
                names = list(marks(stored))
                if names and names[0] in sent:
                    assert (names[0] in shown) == bool(in_context), stored
            if chance.random() < 0.2:
                house.close()
                house = House(root, **limits)
                counted = await house.send(written(script, request), path="/v1/messages/count_tokens")
                assert counted.body == outcome.body
    except StopIteration:
        assert house.sessions.fail_opens == 0
        assert house.lines == []
    finally:
        house.close()


@settings(max_examples=int(os.environ.get("OPENMEM_EXAMPLES", "60")) // 10, deadline=None)
@given(script=scripts(), seed=st.integers(0, 2**32))
def test_any_session_is_accepted_stored_and_flagged_across_restarts(
    tmp_path_factory: pytest.TempPathFactory, script: Script, seed: int
) -> None:
    # A rewind beyond the views a thread remembers is cured by a refusal, which is healing's to prove.
    turns = tuple(msgspec.structs.replace(turn, rewinds_to=None) for turn in script.turns)
    asyncio.run(live(tmp_path_factory.mktemp("live"), msgspec.structs.replace(script, turns=turns), seed))


async def test_a_path_that_only_compacts_gets_the_committed_view_and_stores_nothing(house: House) -> None:
    """Its history may no longer fit as it is; what it says is the summary's, not a turn's."""

    def request(turns: int) -> Json:
        items: list[Json] = []
        for number in range(turns):
            items.append({"type": "message", "role": "user", "content": f"Part {number}: " + "a long question " * 80})
            items.append(
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
            )
        items.append({"type": "message", "role": "user", "content": "And now?"})
        return {"model": "m", "input": items, "tools": [{"type": "function", "name": "smart_compact_search"}]}

    shown = await house.ask(request(6), path="/v1/responses")
    assert len(shown["input"]) < 13
    rows = house.rows()
    compacted = await house.ask(request(6), path="/v1/responses/compact")
    assert compacted["input"] == shown["input"]
    assert house.rows() == rows


CLEARED = "[Old tool result content cleared]"


async def test_a_result_that_a_client_clears_where_it_stands_moves_no_cut(house: House) -> None:
    """OpenCode may do so between two requests; what it cleared had left the prompt already."""
    history = loop(12, size=400)
    shown = await house.ask(body(*history))
    assert pointers(shown) == 1
    pruned = [
        user(result(message["content"][0]["tool_use_id"], CLEARED))
        if place and not place % 2 and place < 19
        else message
        for place, message in enumerate(history)
    ]
    again = await house.ask(body(*pruned, assistant(use("toolu_new")), user(result("toolu_new", "found"))))
    assert again["messages"][: len(shown["messages"])] == shown["messages"]
    assert CLEARED not in strings(again)
    await house.settle()
    assert len(house.events("trim", "dropped")) == 1


def codex(turns: int, *later: Json) -> Json:
    """Return a request of Codex's: its tools in an item, `later` developer messages before the last turn."""
    said = [
        item
        for number in range(turns)
        for item in (
            {"type": "message", "role": "user", "content": f"question {number} " + "q" * 200},
            {"type": "message", "role": "assistant", "content": f"answer {number} " + "a" * 200},
        )
    ]
    tools = {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]}
    last = {"type": "message", "role": "user", "content": "and now?"}
    return {"model": "gpt-6.2", "input": [tools, *said, *later, last], "store": False, "prompt_cache_key": SID}


async def test_tools_that_come_up_late_are_found_at_the_next_request_and_allow_a_cut(house: House) -> None:
    """Codex starts its MCP servers in the background, and says in the middle of a thread what they offer."""
    path = "/v1/responses"
    early = codex(9)
    assert await house.ask(early, sid=None, path=path) == early
    offered = (
        "<tools>\nDeferred tool namespaces:\n- mcp__openmem: look it up with smart_compact_search(query=…)\n</tools>"
    )
    late = {"type": "message", "role": "developer", "content": offered}
    cut = await house.ask(codex(10, late), sid=None, path=path)
    assert strings(cut["input"]).count("[openmem: continuing session s-1; ") == 1
    assert cut["instructions"] == texts.STANDING_INSTRUCTION
    assert late in cut["input"]
    assert early["input"][0] in cut["input"]
