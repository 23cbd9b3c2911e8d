"""Prove over invented sessions what must hold of whatever we forward, and hold single decisions to their rules.

`OPENMEM_EXAMPLES` sets how many sessions are invented for each property.
"""

import json
import os
import random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openmem_addon.core import anthropic, compress, rewrite, texts, view
from openmem_addon.core.rewrite import Policy, Rewrite
from openmem_addon.core.view import Sample, Thread
from openmem_store.rows import Draft, blob_id, chain

from fixtures.provider.wire import Json
from tests.addon.core.proxied import SMALL, Proxied, Sent, check, play, refusal, strings
from tests.conversations import (
    LATER,
    MARK,
    SEARCH,
    TOOLS,
    Answer,
    Call,
    Script,
    Step,
    Turn,
    assistant,
    body,
    chat,
    encode,
    loop,
    result,
    scripts,
    system,
    text,
    thinking,
    use,
    user,
)

EXAMPLES = int(os.environ.get("OPENMEM_EXAMPLES", "60"))

invented = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

WIDE = msgspec.structs.replace(SMALL, trim_tokens=100_000, tail_tokens=30_000)
"""Limits that nothing here reaches."""


def decide(request: Json, thread: Thread | None = None, policy: Policy = WIDE, sample: Sample | None = None) -> Rewrite:
    return rewrite.decide(anthropic.parse(encode(request)), thread, policy, sample=sample)


def forced(policy: Policy = WIDE) -> Policy:
    return msgspec.structs.replace(policy, force=True)


# --- properties --------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def many_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a thread remember every view: invented limits trim more often in ten requests than an agent in a day."""
    monkeypatch.setattr(view, "KEPT_VIEWS", 64)


@invented
@given(scripts(), st.integers(0, 2**32))
def test_every_forwarded_request_is_accepted_and_extends_the_one_before(script: Script, seed: int) -> None:
    """The provider's own rules judge each request, the binding of every thinking block to its prefix among them."""
    play(script, chance=random.Random(seed))


LONG_SESSION = Script(
    turns=tuple(
        Turn(
            text="go on",
            before="wrapper" if number == 3 else "",
            after=after,
            steps=tuple(
                Step(Answer("shown", "looking", calls=(Call("string"), Call("blocks", big=place == 1))), after=tail)
                for place, tail in enumerate(("", "text", "system", "wrapper", ""))
            ),
            final=Answer("redacted" if number % 2 else "omitted", "done"),
            rewinds_to=2 if number == 5 else None,
        )
        for number, after in enumerate(("", "system", "teaching", "", "directive", ""))
    ),
    tools="deferred",
    system="billing",
)


@pytest.mark.parametrize("manual", [False, True])
def test_a_long_session_is_trimmed_again_and_again(manual: bool) -> None:
    """The properties above are about something: here are cuts, gaps, compressions and strips."""
    history = play(msgspec.structs.replace(LONG_SESSION, manual=manual), chance=random.Random(1))
    decided = [sent.decided for sent in history]
    assert sum(one.trim is not None for one in decided) >= 6
    assert any(one.view.gap for one in decided)
    assert any(one.rendering.compressed for one in decided)
    assert any(one.rendering.stripped for one in decided)
    assert any(len(sent.forwarded["messages"]) < len(sent.inbound["messages"]) / 2 for sent in history)


@settings(parent=invented, max_examples=EXAMPLES // 6)
@given(scripts(), st.integers(0, 2**32))
def test_without_our_tools_no_byte_changes(script: Script, seed: int) -> None:
    told = tuple(
        msgspec.structs.replace(
            turn,
            after="" if turn.after == "teaching" else turn.after,
            steps=tuple(
                msgspec.structs.replace(step, after="" if step.after == "teaching" else step.after)
                for step in turn.steps
            ),
        )
        for turn in script.turns
    )
    quiet = msgspec.structs.replace(script, tools="none", turns=told)
    for sent in play(quiet, chance=random.Random(seed)):
        assert sent.left == sent.came


# --- the first request -------------------------------------------------------------------------------------


def test_a_new_thread_is_instructed_where_the_agent_can_look() -> None:
    assert decide(body(user("go"))).view.instruct
    assert not decide(body(user("go"), tools=[*TOOLS])).view.active
    assert decide(
        body(user("go"), tools=[*TOOLS]), policy=msgspec.structs.replace(WIDE, require_tools=False)
    ).view.active
    assert not decide(body(user("go")), policy=msgspec.structs.replace(WIDE, instruct=False)).view.instruct
    assert not decide(body(user("go")), policy=msgspec.structs.replace(WIDE, may_change=False)).view.active


def test_a_thread_with_signed_reasoning_was_not_made_under_our_view() -> None:
    made = decide(body(user("go"), assistant(thinking(), "yes"), user("more")))
    assert not made.view.active
    assert not made.changes_body
    unsigned = decide(body(user("go"), assistant("yes"), user("more")))
    assert unsigned.view.active


def test_what_a_first_request_settled_stays_until_a_trim() -> None:
    first = decide(body(user("go")), policy=msgspec.structs.replace(WIDE, instruct=False))
    later = decide(body(user("go"), assistant("yes"), user("more")), first.thread)
    assert not later.view.instruct
    cut = decide(body(*chat(3), user("last")), decide(body(*chat(1))).thread, forced())
    assert cut.view.instruct


# --- when a trim is due ------------------------------------------------------------------------------------

QUESTIONS = body(*chat(9), user("last"))


def test_a_trim_runs_from_the_threshold_on() -> None:
    tokens = decide(QUESTIONS).chars / 2.5
    below = msgspec.structs.replace(WIDE, trim_tokens=int(tokens) + 2)
    at = msgspec.structs.replace(WIDE, trim_tokens=int(tokens))
    assert decide(QUESTIONS, policy=below).trim is None
    assert decide(QUESTIONS, policy=at).trim is not None


def test_a_report_of_the_provider_moves_the_estimate_and_no_cut() -> None:
    chars = decide(QUESTIONS).chars
    policy = msgspec.structs.replace(WIDE, trim_tokens=5000)
    assert decide(QUESTIONS, policy=policy, sample=Sample(4999, chars, 0)).trim is None
    made = decide(QUESTIONS, policy=policy, sample=Sample(5000, chars, 0))
    assert made.trim is not None
    assert made.trim.tokens_before == 5000
    again = decide(QUESTIONS, made.thread, policy, Sample(10, chars, 0))
    assert again.view == made.view


def test_after_a_trim_the_next_waits_for_a_fifth_of_the_threshold_more() -> None:
    """A turn that cannot get smaller must not be trimmed with every step: that rewrites the cache each time."""
    request = body(*loop(8, size=2000))
    policy = msgspec.structs.replace(WIDE, trim_tokens=1000, tail_tokens=300)
    first = decide(request, policy=policy)
    assert first.trim is not None
    assert first.view.tokens_after > 1000
    seen: list[int] = []
    thread = first.thread
    for steps in range(9, 14):
        made = decide(body(*loop(steps, size=2000)), thread, msgspec.structs.replace(policy, trim_tokens=10_000))
        seen.append(steps if made.trim else 0)
        thread = made.thread
    assert not any(seen)
    made = decide(body(*loop(9, size=2000)), first.thread, policy)
    assert made.trim is not None


@pytest.mark.parametrize(
    ("warm_until", "now", "share", "trims"),
    [
        (100, 101, 0.5, True),
        (100, 100, 0.5, False),
        (0, 101, 0.5, False),
        (100, 101, 1.5, False),
        (100, 101, 0, False),
    ],
    ids=["expired", "just not", "unknown", "too small", "off"],
)
def test_a_thread_whose_cache_must_have_expired_is_trimmed_earlier(
    warm_until: float, now: float, share: float, trims: bool
) -> None:
    """Its prefix is written anew with this request anyway."""
    first = decide(QUESTIONS)
    thread = msgspec.structs.replace(first.thread, warm_until=warm_until)
    policy = msgspec.structs.replace(WIDE, cold_tokens=int(first.chars / 2.5 * share))
    made = rewrite.decide(anthropic.parse(encode(QUESTIONS)), thread, policy, sample=None, now=now)
    assert (made.trim is not None) == trims


def test_a_cold_thread_that_was_just_trimmed_is_left_alone() -> None:
    """What a few steps more would win is not worth what the agent would lose sight of."""
    first = decide(body(*loop(8, size=2000)), policy=msgspec.structs.replace(WIDE, trim_tokens=1000))
    thread = msgspec.structs.replace(first.thread, warm_until=1)
    policy = msgspec.structs.replace(WIDE, trim_tokens=10_000, cold_tokens=1000)
    request = anthropic.parse(encode(body(*loop(9, size=2000))))
    assert rewrite.decide(request, thread, policy, sample=None, now=2).trim is None


def test_an_agent_that_cannot_look_is_not_called_outgrown_because_it_was_idle() -> None:
    request = body(*chat(3), user("go"), tools=[])
    thread = msgspec.structs.replace(decide(request).thread, warm_until=1)
    policy = msgspec.structs.replace(WIDE, cold_tokens=1)
    made = rewrite.decide(anthropic.parse(encode(request)), thread, policy, sample=None, now=2)
    assert (made.trim, made.untrimmed) == (None, 0)


def test_a_trim_that_makes_a_prompt_no_shorter_is_left_alone_unless_it_was_asked_for() -> None:
    """The note of a cut weighs some 300 tokens: a huge first turn leaves nothing to win behind it."""
    request = body(user("x" * 9000), assistant("yes"), user("go"), assistant("ok"), user("more"))
    policy = msgspec.structs.replace(WIDE, trim_tokens=1000)
    made = decide(request, policy=policy)
    assert (made.trim, made.view.cut, made.untrimmed) == (None, None, 0)
    asked = decide(request, policy=msgspec.structs.replace(policy, force=True))
    assert asked.trim is not None
    assert asked.trim.tokens_after > asked.trim.tokens_before


def test_what_is_recalled_for_a_cut_does_not_undo_it() -> None:
    """The provider was asked because of that cut, and would be again with each request."""
    policy = msgspec.structs.replace(WIDE, trim_tokens=1000, recalled=("m" * 9000,))
    assert decide(QUESTIONS, policy=policy).view.note.endswith("m" * 9000)


def test_a_trim_on_demand_asks_for_no_size() -> None:
    assert decide(QUESTIONS, policy=forced()).trim is not None


def test_a_trim_that_drops_nothing_changes_nothing() -> None:
    made = decide(body(user("go")), policy=forced())
    assert made.trim is None
    assert made.view.cut is None


def test_nothing_is_cut_where_nothing_may_change() -> None:
    assert decide(QUESTIONS, policy=msgspec.structs.replace(forced(), may_change=False)).trim is None
    assert decide({**QUESTIONS, "tools": [*TOOLS]}, policy=forced()).trim is None


# --- what a trim says --------------------------------------------------------------------------------------


def test_the_pointer_counts_every_message_missing_from_the_view() -> None:
    made = decide(QUESTIONS, policy=forced())
    assert made.view.note == texts.pointer("s-1", 16)
    assert made.trim is not None
    assert made.trim.dropped == 16
    bare = body(
        user("go"), assistant(thinking()), user("on"), *loop(2, ask="loop")[1:], assistant(thinking()), user("last")
    )
    made = decide(bare, policy=forced())
    sent = json.loads(anthropic.render(anthropic.parse(encode(bare)), made.rendering))
    assert made.view.note == texts.pointer("s-1", len(bare["messages"]) - len(sent["messages"]))


def test_the_pointer_is_the_same_when_the_gap_moves() -> None:
    narrow = msgspec.structs.replace(forced(), tail_tokens=0)
    first = decide(body(*loop(8)), policy=narrow)
    second = decide(body(*loop(12)), first.thread, narrow)
    assert second.trim is not None
    assert second.view.note == first.view.note
    assert second.view.gap != first.view.gap
    assert second.view.strip == 25
    assert second.trimmed == 2
    assert (second.trim.dropped, first.trim.dropped if first.trim else 0) == (8, 10)


def test_a_new_cut_speaks_of_all_that_is_missing() -> None:
    first = decide(body(*chat(4), user("last")), policy=forced())
    second = decide(body(*chat(8), user("last")), first.thread, forced())
    assert second.view.note == texts.pointer("s-1", 14)


def test_the_pointer_stands_at_the_start_of_a_first_turn_that_is_cut() -> None:
    request = body(*loop(6))
    made = decide(request, policy=forced())
    sent = json.loads(anthropic.render(anthropic.parse(encode(request)), made.rendering))
    assert sent["messages"][0]["content"] == [text(made.view.note), text("read them all")]


def test_rows_out_of_context_name_the_first_row_of_the_cut_turn() -> None:
    request = body(user("first", "more"), assistant("yes"), user("second"), assistant("so"), user("last"))
    made = decide(request, policy=forced())
    assert (made.dropped, made.cut_row) == (frozenset({2, 3}), 5)


def test_reasoning_that_is_stripped_is_out_of_context_and_the_rest_of_its_message_is_not() -> None:
    request = body(user("first"), *chat(2), assistant(thinking(), "so"), user("last"))
    made = decide(request, policy=forced())
    gone = [made.rows[index] for index in sorted(made.dropped)]
    assert [(row.role, row.kind) for row in gone][-1] == ("assistant", "thinking")
    assert "so" not in [row.text for row in gone]


def test_rows_are_chained_over_what_the_client_sent_whatever_is_shown() -> None:
    made = decide(QUESTIONS, policy=forced())
    drafts = [Draft(m["role"], "text", None, m["content"][0]["text"]) for m in QUESTIONS["messages"]]
    assert made.rows == chain(drafts)
    assert made.root == made.rows[0].fingerprint == rewrite.root(anthropic.parse(encode(QUESTIONS)))


# --- compression -------------------------------------------------------------------------------------------

LONG = "".join(f"{number} of many lines of output\n" for number in range(400))
BLOB = blob_id(LONG)


def reading(*after: Json, name: str = "Read", content: object = LONG) -> Json:
    return body(user("go"), assistant(use("toolu_1", name)), user(result("toolu_1", content)), *after)


def test_a_long_result_is_compressed_when_it_crosses_first_and_ever_after() -> None:
    first = decide(reading())
    assert first.blobs == {BLOB: LONG}
    assert first.blob_ids == {2: BLOB}
    assert first.depends_on_store
    assert first.rendering.compressed == {2: {0: compress.compressed(compress.result(0, 0, LONG), 2.5)}}
    later = decide(reading(assistant("so"), user("more")), first.thread)
    assert later.rendering.compressed == first.rendering.compressed
    assert (later.blobs, later.blob_ids) == ({}, {2: BLOB})
    assert not later.depends_on_store


def test_a_result_that_crossed_whole_stays_whole_until_a_trim() -> None:
    off = msgspec.structs.replace(WIDE, compress_tokens=0)
    first = decide(reading(), policy=off)
    later = decide(reading(assistant("so"), user("more")), first.thread)
    assert later.rendering.compressed == {}
    kept = body(user("go"), *chat(3)[1:], user("last"), *reading()["messages"][1:])
    trimmed = decide(kept, decide(kept, policy=off).thread, forced())
    assert trimmed.trim is not None
    assert trimmed.blobs == {BLOB: LONG}


def test_the_same_content_is_compressed_again_wherever_it_comes_later() -> None:
    first = decide(reading())
    again = reading(assistant(use("toolu_2")), user(result("toolu_2", [text(LONG)])))
    made = decide(again, first.thread)
    assert set(made.rendering.compressed) == {2, 4}
    assert made.blobs == {}


def test_the_same_content_seen_whole_before_stays_whole_there() -> None:
    off = msgspec.structs.replace(WIDE, compress_tokens=0)
    first = decide(reading(), policy=off)
    again = reading(assistant(use("toolu_2")), user(result("toolu_2", LONG)))
    assert set(decide(again, first.thread).rendering.compressed) == {4}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mcp__openmem__smart_compact_get", LONG),
        ("smart_compact_search", LONG),
        ("Read", [text(LONG), {"type": "tool_reference", "tool_name": LATER}]),
        ("Read", [text(LONG), {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]),
        ("Read", LONG[:2000]),
        ("Read", ""),
    ],
    ids=["our own page", "our own search", "a reference", "an image", "a short text", "nothing"],
)
def test_what_may_not_be_replaced_is_never_compressed(name: str, content: object) -> None:
    tools = [*TOOLS, {"name": LATER, "input_schema": {}, "defer_loading": True}, {"name": SEARCH, "input_schema": {}}]
    made = decide({**reading(name=name, content=content), "tools": tools}, policy=forced())
    assert made.rendering.compressed == {}


def test_the_test_of_size_is_never_calibrated() -> None:
    size = -(-len(LONG) // 2.5)
    at = msgspec.structs.replace(WIDE, compress_tokens=int(size))
    over = msgspec.structs.replace(WIDE, compress_tokens=int(size) - 1)
    for sample in (None, Sample(1_000_000, 10, 0)):
        assert decide(reading(), policy=at, sample=sample).blobs == {}
        assert decide(reading(), policy=over, sample=sample).blobs == {BLOB: LONG}


def test_a_huge_newest_result_is_compressed_and_the_question_stays() -> None:
    huge = "one line " * 700_000
    request = body(*chat(2), user("the question"), assistant(use("t")), user(result("t", huge)))
    made = decide(request, policy=SMALL)
    conversation = anthropic.parse(encode(request))
    left = anthropic.render(conversation, made.rendering)
    assert len(left) < 20_000
    shown = strings(json.loads(left)["messages"])
    assert "the question" in shown
    assert f'smart_compact_get(id="{blob_id(huge)}")' in shown
    assert refusal(json.loads(left)) is None


def test_a_call_of_the_agent_is_never_compressed() -> None:
    written = use("toolu_1", "Write", input={"content": LONG * 4})
    request = body(*chat(2), user("go"), assistant(written), user(result("toolu_1", "written")))
    conversation = anthropic.parse(encode(request))
    left = anthropic.render(conversation, decide(request, policy=forced(SMALL)).rendering)
    assert json.dumps(written, separators=(",", ":")).encode() in left


# --- rewinds and branches ----------------------------------------------------------------------------------


def test_a_client_that_rewinds_and_returns_finds_each_view_again() -> None:
    proxied = Proxied(WIDE)
    full = encode(body(*chat(8), user("last")))
    trimmed = proxied.send(full, force=True)
    assert trimmed.decided.trim is not None
    rewound = proxied.send(encode(body(*chat(3), user("another way"))))
    assert rewound.decided.view.cut is None
    assert rewound.decided.view.instruct
    assert len(rewound.forwarded["messages"]) == 7
    assert proxied.send(full).left == trimmed.left


def test_a_rewound_branch_under_a_budget_keeps_the_reasoning_its_loop_needs() -> None:
    """The strip of a trim ends where the history parted from the one it was made for."""
    budget = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "model": "claude-opus-4-6"}
    proxied = Proxied(WIDE)
    long = [*chat(4), *loop(8, ask="long loop", thinks=True)]
    assert proxied.send(encode(body(*long, **budget)), force=True).decided.trim is not None
    branch = [*chat(4), user("another way"), assistant(thinking("new"), use("toolu_n")), user(result("toolu_n"))]
    made = proxied.send(encode(body(*branch, **budget)))
    assert made.forwarded["messages"][-2]["content"][0]["type"] == "thinking"


def test_a_marker_that_moves_and_a_text_that_becomes_a_string_leave_the_view() -> None:
    proxied = Proxied(WIDE)
    first = proxied.send(encode(body(*chat(4), user(text("last", cache_control=MARK)))), force=True)
    again = proxied.send(encode(body(*chat(4), {"role": "user", "content": "last"}, assistant("so"), user("next"))))
    assert again.decided.view == first.decided.view
    assert again.units[: len(first.units)] == first.units


# --- what the provider would refuse ------------------------------------------------------------------------


def accepted(request: Json, policy: Policy = WIDE) -> Json:
    sent: Sent = Proxied(msgspec.structs.replace(policy)).send(encode(request), force=True)
    check(sent)
    return sent.forwarded


PAUSED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
RESUMED = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}

HISTORIES: dict[str, Json] = {
    "parallel results in another order": body(
        *chat(2),
        user("go"),
        assistant(use("a"), use("b")),
        user(result("b"), result("a")),
        assistant("so"),
        user("last"),
    ),
    "text behind results": body(
        *chat(2), user("go"), assistant(use("a")), user(result("a"), "and"), assistant("so"), user("last")
    ),
    "a server tool inside an answer": body(*chat(2), user("go"), assistant(PAUSED, RESUMED, "so"), user("last")),
    "a paused answer resumed": body(*chat(2), user("go"), assistant(PAUSED), assistant(RESUMED, "so"), user("last")),
    "an interrupted loop": body(*chat(2), user("go"), *loop(2, ask="x")[1:], user("stop that")),
    "a system message behind each turn": body(
        user("go"), system("a"), assistant("yes"), user("on"), system("b"), assistant("so"), user("last"), system("c")
    ),
    "a system message and no reply": body(
        user("go"), system("a"), *loop(1, ask="y")[1:], user("last"), user("<task-notification>x</task-notification>")
    ),
    "parameters in odd places": body(
        user("go"), system(output_config={}), assistant("yes"), system(output_config={}), user("on"), user("last")
    ),
    "three users in a row": body(*chat(2), user("a"), user("b"), user("c")),
    "an error result": body(
        *chat(2), user("go"), assistant(use("a")), user(result("a", "no", is_error=True)), user("so")
    ),
    "four markers": body(
        *[user(text(f"m{n}", cache_control=MARK)) if n % 2 == 0 else assistant(f"a{n}") for n in range(7)]
    ),
    "a marker on top": body(*chat(3), user(text("last", cache_control=MARK)), cache_control=MARK),
    "a long marker before a short one": body(
        *chat(3),
        user(text("last", cache_control=MARK)),
        system=[text("be brief", cache_control={**MARK, "ttl": "1h"})],
    ),
}


@pytest.mark.parametrize("request_body", HISTORIES.values(), ids=HISTORIES)
def test_a_trimmed_history_is_accepted(request_body: Json) -> None:
    assert refusal(request_body) is None
    forwarded = accepted(request_body)
    assert len(forwarded["messages"]) < len(request_body["messages"])


def test_markers_keep_their_lifetime_and_none_is_added() -> None:
    request = HISTORIES["a long marker before a short one"]
    forwarded = accepted(request)
    assert strings(forwarded).count("1h") == 1
    plain = json.loads(json.dumps(request).replace(', "ttl": "1h"', ""))
    assert "ttl" not in json.dumps(accepted(plain))


def test_a_message_emptied_between_a_system_message_and_a_user_keeps_a_place() -> None:
    request = body(
        *chat(3),
        user("cut here"),
        system("note"),
        assistant(thinking()),
        user("<task-notification>done</task-notification>"),
        assistant(use("a")),
        user(result("a")),
    )
    made = decide(request, policy=forced())
    forwarded = json.loads(anthropic.render(anthropic.parse(encode(request)), made.rendering))
    assert forwarded["messages"][-4] == assistant("[no text]")
    assert refusal(forwarded) is None


def test_a_client_s_empty_text_is_passed_on_and_does_not_stop_a_trim() -> None:
    request = body(*chat(3), user(text("look"), text("")))
    made = decide(request, policy=forced())
    assert made.trim is not None
    sent = json.loads(anthropic.render(anthropic.parse(encode(request)), made.rendering))
    assert sent["messages"][-1]["content"][1:] == [text("look"), text("")]


def test_a_prefill_is_passed_on_as_it_stands() -> None:
    request = body(*chat(5), user("go"), assistant("The answer is"))
    made = decide(request, policy=forced())
    assert made.trim is None
    left = anthropic.render(anthropic.parse(encode(request)), made.rendering)
    assert json.loads(left)["messages"] == request["messages"]
