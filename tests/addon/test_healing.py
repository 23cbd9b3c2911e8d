"""Hold the healing to curing what we caused, to leaving alone what we did not, and to asking nothing twice in vain."""

import asyncio
import json
import os
import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openmem_addon.core import adapter, texts
from openmem_addon.core.anthropic import VALVE_BETA
from openmem_addon.healing import REMEDIES, please_retry, retries
from openmem_addon.refusals import PATTERNS
from openmem_addon.session import Inbound, Outcome

from fixtures.provider.behaviour import Behaviour
from fixtures.provider.wire import THINKING, Json
from tests.addon.core.proxied import strings
from tests.addon.house import SID, House
from tests.conversations import (
    OLDER,
    SEARCH,
    TOOLS,
    Script,
    assistant,
    body,
    chat,
    encode,
    loop,
    result,
    scripts,
    thinking,
    use,
    user,
)
from tests.healed import Between, Upstream, play
from tests.sentences import BOUND, MISSING, NO_VALVE, SIGNATURE, TOO_LONG, UNANSWERED, anthropic

Open = Callable[..., House]

EXAMPLES = int(os.environ.get("OPENMEM_EXAMPLES", "60"))


# --- remedies ----------------------------------------------------------------------------------------------


def test_every_remedy_is_one_of_a_pattern() -> None:
    assert {remedy for pattern in PATTERNS for remedy in pattern.remedies} == set(REMEDIES)


ADAPTIVE = {"type": "adaptive"}
FIRST = body(user("go"), thinking=ADAPTIVE)


def thought(turns: int = 1, **more: Any) -> Json:
    """Return a session whose answers hold signed reasoning, and a new question."""
    messages = [user("go")]
    for number in range(turns):
        messages += [
            assistant(thinking(f"thought {number}", f"sig-{number}"), f"answer {number}"),
            user(f"go {number}"),
        ]
    return body(*messages, **{"thinking": ADAPTIVE, **more})


def inbound(request: Json, *, path: str = "/v1/messages", headers: Mapping[str, str] | None = None) -> Inbound:
    route = adapter.for_path(path)
    assert route is not None
    return Inbound(route, {"x-claude-code-session-id": SID, **(headers or {})}, encode(request))


class Asked:
    """One request and what became of it."""

    def __init__(self, outcome: Outcome, *, healed: bool) -> None:
        self.body: Json = json.loads(outcome.body)
        self.beta = outcome.beta
        self.healed = healed

    @property
    def instructed(self) -> bool:
        return texts.STANDING_INSTRUCTION in strings(self.body.get("system"))

    @property
    def reasons(self) -> int:
        """How many blocks of reasoning went out."""
        parts = (part for message in self.body["messages"] for part in message["content"])
        return sum(isinstance(part, dict) and part["type"] in THINKING for part in parts)


async def refused(house: House, request: Json, message: str = BOUND, *, status: int = 400, **more: Any) -> Asked:
    """Send a request that the provider refuses; say whether it is to be asked again."""
    came = inbound(request, **more)
    outcome = await house.sessions.handle(came)
    healed = outcome.ticket is not None and await house.sessions.heal(
        outcome.ticket, came, status=status, refusal=anthropic(message).encode(), sent=outcome.body
    )
    if outcome.ticket is not None:
        house.refuse(outcome)
    return Asked(outcome, healed=healed)


async def accepted(house: House, request: Json, **more: Any) -> Asked:
    outcome = await house.sessions.handle(inbound(request, **more))
    house.answer(outcome)
    return Asked(outcome, healed=False)


async def thinking_thread(house: House) -> Json:
    """Begin a thread under our instruction; return its next request, which holds reasoning."""
    assert (await accepted(house, FIRST)).instructed
    await accepted(house, thought(1))
    return thought(2)


async def test_bound_reasoning_opens_the_valve_and_then_leaves(house: House) -> None:
    request = await thinking_thread(house)
    first = await refused(house, request)
    assert first.healed
    assert (first.body["thinking"], first.beta, first.reasons) == (ADAPTIVE, None, 2)

    second = await refused(house, request)
    assert second.healed
    assert second.body["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert (second.beta, second.reasons) == (VALVE_BETA, 2)

    third = await refused(house, request)
    assert (third.body["thinking"], third.beta, third.reasons) == (ADAPTIVE, None, 0)
    assert not third.healed


async def test_each_remedy_is_tried_once_for_a_request(house: House) -> None:
    request = await thinking_thread(house)
    assert [(await refused(house, request)).healed for _ in range(4)] == [True, True, False, False]
    assert [(await refused(house, thought(3))).healed for _ in range(4)] == [True, True, False, False]


async def test_a_request_that_was_accepted_may_be_cured_again(house: House) -> None:
    request = await thinking_thread(house)
    assert (await refused(house, request)).healed
    await accepted(house, request)
    await house.settle()
    assert [(thread.refused, thread.tried) for thread in house.state().threads.values()] == [("", ())]
    assert (await refused(house, request, SIGNATURE)).healed


async def test_the_valve_stays_open_also_after_a_restart_and_for_a_count(open_house: Open) -> None:
    house = open_house()
    request = await thinking_thread(house)
    await refused(house, request)
    await accepted(house, request)
    house.close()
    again = open_house()
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        asked = await accepted(again, thought(3), path=path)
        assert (asked.beta, asked.reasons) == (VALVE_BETA, 3)
        assert "block_binding" in asked.body["thinking"]


async def test_the_clients_own_thinking_fields_stay_beside_the_valve(house: House) -> None:
    await thinking_thread(house)
    request = thought(2, thinking={"type": "adaptive", "display": "omitted"})
    await refused(house, request)
    asked = await refused(house, request)
    assert asked.body["thinking"] == {
        "type": "adaptive",
        "display": "omitted",
        "block_binding": {"prefix_mismatch_behavior": "drop_block"},
    }


@pytest.mark.parametrize("given", [None, {"type": "disabled"}], ids=["not said", "off"])
async def test_where_the_valve_has_no_place_the_reasoning_leaves_at_once(house: House, given: Json | None) -> None:
    """The page: a request that turns thinking off removes it by hand."""
    await thinking_thread(house)
    request = thought(2, thinking=given)
    assert (await refused(house, request)).healed
    asked = await accepted(house, request)
    assert (asked.reasons, asked.beta) == (0, None)
    assert asked.body.get("thinking") == given


async def test_a_gateway_that_does_not_know_the_valve_gets_no_reasoning(house: House) -> None:
    request = await thinking_thread(house)
    assert (await refused(house, request)).healed
    assert (await refused(house, request, NO_VALVE)).healed
    asked = await accepted(house, request)
    assert (asked.body["thinking"], asked.beta, asked.reasons) == (ADAPTIVE, None, 0)


async def test_words_against_a_valve_that_is_not_ours_are_the_clients(house: House) -> None:
    request = await thinking_thread(house)
    assert not (await refused(house, request, NO_VALVE)).healed


async def test_reasoning_that_is_new_stays_after_a_strip(house: House) -> None:
    request = await thinking_thread(house)
    assert (await refused(house, request, SIGNATURE)).healed
    assert (await accepted(house, request)).reasons == 0
    assert [(await accepted(house, thought(turns))).reasons for turns in (3, 4)] == [1, 2]


async def test_under_a_budget_a_running_tool_loop_keeps_its_reasoning(house: House) -> None:
    """Older models demand it there; what they refuse of it is then not cured by us."""
    manual = {"type": "enabled", "budget_tokens": 1024}
    await accepted(house, body(user("go"), model=OLDER, thinking=manual))
    history = [user("go"), assistant(thinking("a"), use("t1")), user(result("t1"))]
    await accepted(house, body(*history, model=OLDER, thinking=manual))
    running = [*history, assistant(thinking("b"), use("t2")), user(result("t2"))]
    request = body(*running, model=OLDER, thinking=manual)
    asked = await refused(house, request, SIGNATURE)
    assert (asked.reasons, asked.healed) == (2, True)
    assert (await accepted(house, request)).reasons == 1


async def test_a_running_tool_loop_gets_back_the_reasoning_that_a_model_demands(house: House) -> None:
    """Stripped under a model that does not demand it; then the user chose another model in the middle."""
    await accepted(house, FIRST)
    running = [user("go"), assistant(thinking("a"), use("t1")), user(result("t1"))]
    assert (await refused(house, body(*running, thinking={"type": "disabled"}))).healed
    manual = body(*running, model=OLDER, thinking={"type": "enabled", "budget_tokens": 1024})
    asked = await refused(house, manual, MISSING)
    assert (asked.reasons, asked.healed) == (0, True)
    assert (await accepted(house, manual)).reasons == 1


async def test_reasoning_that_we_did_not_take_is_not_ours_to_give_back(house: House) -> None:
    request = await thinking_thread(house)
    assert not (await refused(house, request, MISSING)).healed


OPENAI_TOOL = {"type": "function", "function": {"name": SEARCH, "parameters": {"type": "object"}}}
PACKED = json.dumps([{"type": "thinking", "thinking": "a thought", "signature": "sig"}])
GATEWAY: dict[str, tuple[str, Json, list[Json]]] = {
    "Chat Completions": (
        "/v1/chat/completions",
        {"model": "claude", "tools": [OPENAI_TOOL], "messages": [{"role": "user", "content": "go"}]},
        [
            {"role": "assistant", "content": "yes", "thinking_blocks": json.loads(PACKED)},
            {"role": "user", "content": "more"},
        ],
    ),
    "Responses": (
        "/v1/responses",
        {
            "model": "claude",
            "tools": [{"type": "function", "name": SEARCH}],
            "input": [{"role": "user", "content": "go"}],
        },
        [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": PACKED},
            {"role": "assistant", "content": "yes"},
            {"role": "user", "content": "more"},
        ],
    ),
}


@pytest.mark.parametrize(("path", "first", "more"), GATEWAY.values(), ids=GATEWAY)
async def test_behind_a_gateway_that_has_no_valve_the_reasoning_leaves(
    house: House, path: str, first: Json, more: list[Json]
) -> None:
    """LiteLLM packs Anthropic's signed blocks into fields of its own."""
    history = "messages" if "messages" in first else "input"
    await accepted(house, first, path=path)
    request = {**first, history: [*first[history], *more]}
    asked = await refused(house, request, f"litellm.BadRequestError: AnthropicException - {BOUND}", path=path)
    assert "sig" in json.dumps(asked.body)
    assert asked.healed
    again = await refused(house, request, path=path)
    assert "sig" not in json.dumps(again.body)
    assert (again.beta, again.healed) == (None, False)


# --- too long ----------------------------------------------------------------------------------------------

WIDE = {"trim_tokens": 1_000_000, "compress_tokens": 0}


async def test_a_prompt_over_the_window_is_trimmed_whatever_its_size(open_house: Open) -> None:
    house = open_house(**WIDE)
    request = body(*chat(6)[:-1])
    asked = await refused(house, request, TOO_LONG)
    assert asked.healed
    trimmed = await accepted(house, request)
    assert len(trimmed.body["messages"]) < len(asked.body["messages"])
    await house.settle()
    assert house.events("trim", "dropped") == [(8,)]
    assert len((await accepted(house, body(*chat(7)[:-1]))).body["messages"]) == len(trimmed.body["messages"]) + 2


async def test_a_trim_that_the_window_forces_leaves_room_in_the_window(open_house: Open) -> None:
    """Not in the threshold, which may be far above it: else the next request would be refused again."""
    house = open_house(**WIDE)
    history = loop(30, size=2000)
    await refused(house, body(*history), TOO_LONG)
    asked = await accepted(house, body(*history))
    assert len(asked.body["messages"]) < len(history) * 0.4


async def test_a_trim_is_forced_once_and_not_again_by_the_next_request(open_house: Open) -> None:
    house = open_house(**WIDE)
    await refused(house, body(*chat(6)[:-1]), TOO_LONG)
    await accepted(house, body(*chat(6)[:-1]))
    await accepted(house, body(*chat(8)[:-1]))
    await house.settle()
    assert len(house.events("trim", "id")) == 1


NOT_TRIMMED: dict[str, tuple[dict[str, Any], Json]] = {
    "an agent that cannot look": ({}, body(*chat(6)[:-1], tools=[*TOOLS])),
    "observe": ({"mode": "observe"}, body(*chat(6)[:-1])),
    "nothing would drop": ({"standing_instruction": False}, body(user("go"))),
}


@pytest.mark.parametrize(("more", "request_"), NOT_TRIMMED.values(), ids=NOT_TRIMMED)
async def test_what_no_trim_can_shorten_passes_at_once(open_house: Open, more: dict[str, Any], request_: Json) -> None:
    house = open_house(**WIDE, **more)
    assert not (await refused(house, request_, TOO_LONG)).healed
    await house.settle()
    assert house.events("heal", "id") == []


async def test_a_first_question_that_our_instruction_makes_too_long_goes_without_it(open_house: Open) -> None:
    house = open_house(**WIDE)
    assert (await refused(house, FIRST, TOO_LONG)).healed
    assert (await accepted(house, FIRST)).body == FIRST


async def test_a_trim_that_made_a_prompt_too_long_is_taken_back(open_house: Open) -> None:
    """The pointer may be longer than what it stands for."""
    house = open_house(**WIDE)
    short = body(*chat(3, size=1)[:-1])
    await accepted(house, body(*chat(2, size=1)[:-1]))
    house.layout.force(SID).touch()
    forced = await refused(house, short, TOO_LONG)
    assert "[openmem: continuing session" in json.dumps(forced.body)
    assert forced.healed
    assert (await accepted(house, short)).body == short


async def test_a_session_that_could_not_be_cured_is_cured_again_with_its_next_request(open_house: Open) -> None:
    house = open_house(**WIDE)
    request = body(*chat(6)[:-1])
    for _ in range(4):
        last = await refused(house, request, TOO_LONG)
    assert not last.healed
    later = body(*chat(8)[:-1])
    assert (await refused(house, later, TOO_LONG)).healed
    assert "[openmem: continuing session" in json.dumps((await accepted(house, later)).body)


async def test_a_history_far_over_the_window_is_never_sent_whole_again(open_house: Open) -> None:
    house = open_house()
    request = body(*chat(40)[:-1])
    asked = [await refused(house, request, TOO_LONG) for _ in range(4)]
    assert [one.healed for one in asked[1:]] == [False, False, False]
    assert all(len(one.body["messages"]) < 20 for one in asked)


# --- pairs -------------------------------------------------------------------------------------------------


async def test_a_pair_that_a_cut_may_have_parted_is_cut_again_and_else_sent_whole(open_house: Open) -> None:
    house = open_house()
    history = [*loop(12), assistant("done"), user("more")]
    trimmed = await refused(house, body(*history), UNANSWERED)
    assert trimmed.healed
    whole = await accepted(house, body(*history))
    assert len(whole.body["messages"]) == len(history)
    assert "[openmem: continuing session" not in json.dumps(whole.body)
    # the next request may be trimmed again
    more = await accepted(house, body(*history, assistant("yes"), user("and more")))
    assert len(more.body["messages"]) < len(history)


async def test_a_session_that_no_cure_helped_is_trimmed_again_with_its_next_request(open_house: Open) -> None:
    house = open_house()
    history = [*loop(12), assistant("done"), user("more")]
    asked = [await refused(house, body(*history), UNANSWERED) for _ in range(4)]
    assert (asked[0].healed, asked[-1].healed) == (True, False)
    later = [*history, assistant("yes"), user("and more")]
    assert len((await accepted(house, body(*later))).body["messages"]) < len(history)


async def test_a_pair_that_the_client_left_open_is_its_own(open_house: Open) -> None:
    house = open_house()
    history = [*loop(12), assistant(use("toolu_open")), user("never mind")]
    assert not (await refused(house, body(*history), UNANSWERED)).healed


async def test_a_pair_that_nothing_of_ours_parted_is_the_clients(house: House) -> None:
    request = body(*loop(1))
    assert not (await refused(house, request, UNANSWERED)).healed


# --- whose refusal it is -----------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [BOUND, SIGNATURE, MISSING, NO_VALVE, UNANSWERED])
async def test_a_refusal_of_a_thread_we_never_changed_passes(open_house: Open, message: str) -> None:
    house = open_house(mode="observe")
    await accepted(house, FIRST)
    asked = await refused(house, thought(2), message)
    assert asked.body == thought(2)
    assert not asked.healed


async def test_reasoning_that_was_there_before_us_is_the_clients(house: House) -> None:
    assert not (await refused(house, thought(2))).healed


@pytest.mark.parametrize("written", [True, False], ids=["its file is lost", "its file is not readable"])
async def test_a_thread_whose_state_is_lost_may_be_ours(open_house: Open, written: bool) -> None:
    house = open_house()
    await thinking_thread(house)
    await house.settle()
    house.close()
    if written:
        house.layout.trim(SID).unlink()
    else:
        house.layout.trim(SID).write_bytes(b"{")
    again = open_house()
    asked = await refused(again, thought(2))
    assert asked.body == thought(2)
    assert asked.healed
    assert (await accepted(again, thought(2))).beta == VALVE_BETA


@pytest.mark.parametrize(
    "more",
    [{"path": "/v1/messages/count_tokens"}, {"headers": {"x-claude-code-request-class": "compaction"}}],
    ids=["a count", "the client's own compaction"],
)
async def test_a_lost_thread_is_taken_up_by_a_request_beside_it_too(open_house: Open, more: dict[str, Any]) -> None:
    house = open_house()
    await thinking_thread(house)
    await house.settle()
    house.close()
    house.layout.trim(SID).unlink()
    again = open_house()
    asked = await refused(again, thought(2), **more)
    assert (asked.body, asked.healed) == (thought(2), True)
    assert (await accepted(again, thought(2))).beta == VALVE_BETA


async def test_a_refusal_is_not_cured_where_another_proxy_writes_the_session(open_house: Open) -> None:
    house = open_house()
    request = await thinking_thread(house)
    await house.settle()
    other = open_house()
    assert not (await refused(other, request)).healed


@pytest.mark.parametrize(
    "more",
    [{"path": "/v1/messages/count_tokens"}, {"headers": {"x-claude-code-request-class": "compaction"}}],
    ids=["a count", "the client's own compaction"],
)
async def test_a_request_beside_the_thread_is_cured_with_it(house: House, more: dict[str, Any]) -> None:
    request = await thinking_thread(house)
    assert [(await refused(house, request, **more)).healed for _ in range(3)] == [True, True, False]
    asked = await accepted(house, request, **more)
    assert (asked.reasons, asked.instructed) == (0, True)


async def test_a_count_that_was_cured_is_no_usage(house: House) -> None:
    request = await thinking_thread(house)
    await refused(house, request, path="/v1/messages/count_tokens")
    await accepted(house, request, path="/v1/messages/count_tokens")
    await house.settle()
    assert len(house.events("usage", "id")) == 2


async def test_a_fork_that_is_counted_before_it_is_asked_has_its_threads_view(open_house: Open) -> None:
    house = open_house()
    await thinking_thread(house)
    await accepted(house, thought(2))
    await house.settle()
    fork = {"x-claude-code-session-id": "s-2"}
    asked = await accepted(house, thought(3), path="/v1/messages/count_tokens", headers=fork)
    assert asked.instructed


async def test_a_fork_of_a_changed_thread_has_its_view_also_while_we_are_switched_off(open_house: Open) -> None:
    house = open_house()
    await thinking_thread(house)
    await accepted(house, thought(2))
    await house.settle()
    house.close()
    off = open_house(proxy_enabled=False)
    asked = await refused(off, thought(3), headers={"x-claude-code-session-id": "s-2"})
    assert asked.instructed
    assert asked.healed


async def test_an_older_client_without_a_name_is_cured_too(house: House) -> None:
    outcome = await house.send(FIRST, sid=None)
    house.answer(outcome)
    route = adapter.for_path("/v1/messages")
    assert route is not None
    came = Inbound(route, {}, encode(thought(2)))
    refusal = anthropic(BOUND).encode()
    second = await house.sessions.handle(came)
    assert second.ticket is not None
    assert await house.sessions.heal(second.ticket, came, status=400, refusal=refusal, sent=second.body)


# --- what is left of it ------------------------------------------------------------------------------------


async def test_a_cure_leaves_one_event_and_one_line_without_a_word_of_the_conversation(house: House) -> None:
    request = await thinking_thread(house)
    await refused(house, request)
    await refused(house, request)
    await house.settle()
    assert house.events("heal", "location, error, version") == [
        ("valve", "binding", "proxy:0123456789ab"),
        ("strip", "binding", "proxy:0123456789ab"),
    ]
    assert house.lines == [
        "openmem-context: session s-1: healed a refusal (binding) by valve",
        "openmem-context: session s-1: healed a refusal (binding) by strip",
    ]


async def test_a_cure_is_on_disk_before_the_cured_request_leaves(house: House) -> None:
    request = await thinking_thread(house)
    await refused(house, request)
    await house.send(request)
    assert [thread.valve for thread in house.state().threads.values()] == [True]


async def test_what_fails_in_the_cure_leaves_the_refusal_as_it_came(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = await thinking_thread(house)
    came = inbound(request)
    outcome = await house.sessions.handle(came)
    assert outcome.ticket is not None

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("openmem_addon.core.rewrite.decide", fails)
    refusal = anthropic(BOUND).encode()
    assert not await house.sessions.heal(outcome.ticket, came, status=400, refusal=refusal, sent=outcome.body)
    assert len(house.lines) == 1
    assert house.lines[0].startswith("openmem-context: fail-open RuntimeError at ")


async def test_an_answer_that_is_booked_during_the_cure_is_kept(house: House) -> None:
    request = await thinking_thread(house)
    other = await house.send(request)
    came = inbound(request)
    outcome = await house.sessions.handle(came)
    assert outcome.ticket is not None
    refusal = anthropic(BOUND).encode()
    curing = asyncio.ensure_future(
        house.sessions.heal(outcome.ticket, came, status=400, refusal=refusal, sent=outcome.body)
    )
    await asyncio.sleep(0)
    house.answer(other)
    assert await curing
    await house.settle()
    (thread,) = house.state().threads.values()
    assert thread.valve
    assert thread.sent is not None
    assert thread.sent.items == len(request["messages"])


# --- clients -----------------------------------------------------------------------------------------------

RETRYING: dict[str, dict[str, str]] = {
    "Claude Code": {"user-agent": "claude-cli/2.1.332 (external, cli)", "x-stainless-retry-count": "0"},
    "Codex": {"user-agent": "codex_exec/0.171.0 (Debian 12.0.0; x86_64)", "originator": "codex_exec"},
    "OpenCode": {"user-agent": "opencode/1.18.33 ai-sdk/provider-utils/3.0.0 runtime/bun/1.3.0"},
}
NOT_RETRYING: dict[str, dict[str, str]] = {
    "a script": {"user-agent": "python-httpx/0.28.1"},
    "a library, which may be allowed no retry": {"user-agent": "Anthropic/Python 0.80", "x-stainless-retry-count": "0"},
    "one that has retried often": {**RETRYING["Claude Code"], "x-stainless-retry-count": "2"},
    "nobody": {},
}


@pytest.mark.parametrize("headers", RETRYING.values(), ids=RETRYING)
def test_a_client_that_was_measured_to_ask_again_is_told_to(headers: dict[str, str]) -> None:
    assert retries(headers)


@pytest.mark.parametrize("headers", NOT_RETRYING.values(), ids=NOT_RETRYING)
def test_any_other_is_answered_in_its_place(headers: dict[str, str]) -> None:
    assert not retries(headers)


def test_the_plea_is_the_one_that_was_measured() -> None:
    status, content, headers = please_retry()
    assert status == 503
    assert json.loads(content) == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "openmem-context: please retry"},
    }
    assert headers == {
        "content-type": "application/json",
        "x-should-retry": "true",
        "retry-after-ms": "1",
        "retry-after": "0",
    }


# --- anything may happen -----------------------------------------------------------------------------------


@given(
    script=scripts(),
    chance=st.integers(0, 1 << 30).map(random.Random),
    account=st.sampled_from(["new", "older"]),
    knows_valve=st.booleans(),
    window=st.sampled_from([1_000_000, 1_000_000, 900, 2_500]),
)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_client_sees_a_refusal_that_its_own_request_would_not_have_met(
    script: Script, chance: random.Random, account: Any, knows_valve: bool, window: int
) -> None:
    """Over trims, restarts, lost states, calls past the proxy, failures of ours, switches and other models."""
    upstream = Upstream(Behaviour(account=account, context_tokens=window), knows_valve=knows_valve)
    with tempfile.TemporaryDirectory() as folder:
        threshold = {} if window == 1_000_000 else {"trim_tokens": 1_000_000}
        between = Between(Path(folder), upstream, **threshold)
        try:
            asyncio.run(play(script, between, chance))
        finally:
            between.close()
