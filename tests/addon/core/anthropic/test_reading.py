"""Hold the reading of the Anthropic wire to the contract: what a request is read as, and what is none."""

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openmem_addon.core import anthropic, rewrite, texts
from openmem_addon.core.source import NotSplicable
from openmem_store.rows import Draft

from fixtures.provider.wire import Json
from tests.addon.core.anthropic.made import PNG, parsed, size_and_hash
from tests.addon.core.proxied import SMALL
from tests.conversations import (
    LATER,
    MARK,
    SEARCH,
    TOOLS,
    assistant,
    body,
    encode,
    result,
    system,
    text,
    thinking,
    tool,
    use,
    user,
)

REMINDER = "<system-reminder>\nkeep it short\n</system-reminder>"
OFFER = f"<system-reminder>Deferred tools: {SEARCH}</system-reminder>"
REFERENCE = f'{{"type":"tool_reference","tool_name":"{LATER}"}}'


# --- what a message is -------------------------------------------------------------------------------------


KINDS: dict[str, tuple[Json, str]] = {
    "a string": ({"role": "user", "content": "go"}, "turn"),
    "text": (user("go"), "turn"),
    "an image": (user({"type": "image", "source": PNG}), "turn"),
    "a reminder": (user(REMINDER), "wrapper"),
    "a reminder as a string": ({"role": "user", "content": REMINDER}, "wrapper"),
    "two reminders": (user(REMINDER, f"{REMINDER}\n{REMINDER}\n"), "wrapper"),
    "a reminder and text": (user(REMINDER, "go"), "turn"),
    "text behind a reminder": (user(f"{REMINDER} go"), "turn"),
    "text about a reminder": (user(f"what is {REMINDER}?"), "turn"),
    "an open reminder": (user("<system-reminder>go"), "turn"),
    "results": (user(result("toolu_1")), "results"),
    "results and text": (user(result("toolu_1"), "look"), "results"),
    "nothing": (user(), "other"),
    "an answer": (assistant("yes"), "assistant"),
    "a note": (system("note"), "system"),
    "parameters": (system(output_config={"effort": "low"}), "pinned"),
    "a note without words": (system(), "other"),
}


@pytest.mark.parametrize(("message", "kind"), KINDS.values(), ids=KINDS)
def test_a_message_is_of_its_kind(message: Json, kind: str) -> None:
    assert parsed(user("go"), message).items[1].kind == kind


DRAFTS: dict[str, tuple[Json, list[Draft]]] = {
    "text": (user("go", "on"), [Draft("user", "text", None, "go"), Draft("user", "text", None, "on")]),
    "a string": ({"role": "user", "content": "go"}, [Draft("user", "text", None, "go")]),
    "an answer": (
        assistant(thinking("hm"), "yes", use("toolu_9", "Edit", input={"b": 1, "a": [True, None]})),
        [
            Draft("assistant", "thinking", None, "hm"),
            Draft("assistant", "text", None, "yes"),
            Draft("assistant", "tool_use", "Edit", '{"b":1,"a":[true,null]}'),
        ],
    ),
    "omitted thinking": (
        assistant(thinking(" \n"), {"type": "redacted_thinking", "data": "x"}, "yes"),
        [Draft("assistant", "text", None, "yes")],
    ),
    "a result": (user(result("toolu_1", "found")), [Draft("tool", "tool_result", "Read", "found")]),
    "parts of a result": (
        user(result("toolu_1", [text("one"), text("two"), json.loads(REFERENCE)])),
        [Draft("tool", "tool_result", "Read", f"one\ntwo\n[tool_reference {size_and_hash(REFERENCE)}]")],
    ),
    "an empty result": (user(result("toolu_1", "")), [Draft("tool", "tool_result", "Read", "")]),
    "a result without content": (
        user({"type": "tool_result", "tool_use_id": "toolu_1"}),
        [Draft("tool", "tool_result", "Read", "")],
    ),
    "a result of an unknown call": (user(result("toolu_0", "found")), [Draft("tool", "tool_result", None, "found")]),
    "a server tool": (
        assistant(
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "e", "n": 1}},
        ),
        [
            Draft("assistant", "tool_use", "web_search", '{"query":"x"}'),
            Draft("tool", "tool_result", "web_search", '{"type":"e","n":1}'),
        ],
    ),
    "a note": (system("note"), [Draft("user", "text", "system", "note")]),
    "a plain-text document": (
        user({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "lines"}}),
        [Draft("user", "text", None, "lines")],
    ),
}


@pytest.mark.parametrize(("message", "drafts"), DRAFTS.values(), ids=DRAFTS)
def test_a_message_becomes_a_draft_for_each_block(message: Json, drafts: list[Draft]) -> None:
    conversation = parsed(user("go"), assistant(use("toolu_1")), message)
    assert list(conversation.items[2].drafts) == drafts


def test_system_messages_before_the_first_answer_are_not_stored_and_later_ones_are() -> None:
    conversation = parsed(user("go"), system("early"), assistant("yes"), user("more"), system("late"))
    assert [item.stored for item in conversation.items] == [True, False, True, True, True]


def test_rows_do_not_depend_on_markers_the_form_of_a_content_or_the_billing_block() -> None:
    image = {"type": "image", "source": PNG}
    one = body({"role": "user", "content": "go"}, assistant("yes"), user(image), system="x-anthropic-billing-header: 1")
    two = body(
        user(text("go", cache_control=MARK)),
        {"role": "assistant", "content": "yes"},
        user({**image, "cache_control": MARK}),
        system=[text("x-anthropic-billing-header: 2")],
    )
    rows = [rewrite.decide(anthropic.parse(encode(b)), None, SMALL, sample=None).rows for b in (one, two)]
    assert rows[0] == rows[1]
    assert anthropic.parse(encode(one)).identity == anthropic.parse(encode(two)).identity


def test_a_step_opens_at_the_first_of_adjacent_answers() -> None:
    conversation = parsed(
        user("go"),
        assistant("a"),
        assistant(use("toolu_1")),
        user(result("toolu_1")),
        system("n"),
        system(output_config={}),
        assistant("b"),
        user("more"),
    )
    assert [item.opens_step for item in conversation.items] == [False, True, False, False, False, False, True, False]


def test_a_step_opens_alike_where_a_request_is_read_on_behind_parameters() -> None:
    before = body(user("go"), assistant("a"), system(output_config={}))
    after = encode({**before, "messages": [*before["messages"], assistant("b"), user("more")]})
    known = anthropic.parse(encode(before))
    assert anthropic.parse(after, known).items == anthropic.parse(after).items


def test_only_an_answer_that_stands_alone_is_a_reply() -> None:
    begun = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    answers = [assistant("yes"), assistant(use("t")), assistant(begun, found), assistant(found, "so"), assistant(begun)]
    assert [parsed(user("go"), answer).items[1].replies for answer in answers] == [True, False, True, False, True]


# --- what a request offers ---------------------------------------------------------------------------------

OFFERS: dict[str, tuple[Json, bool]] = {
    "the tool": (body(user("go")), True),
    "the tool under another prefix": (body(user("go"), tools=[tool("openmem_smart_compact_search")]), True),
    "no tool": (body(user("go"), tools=[*TOOLS]), False),
    "no list of tools": (body(user("go"), tools=None), False),
    "a tool of another name": (body(user("go"), tools=[tool("smart_compact_search_all")]), False),
    "a system text": (body(user("go"), tools=[], system=f"Use {SEARCH}."), True),
    "a system message": (body(user("go"), system(f"Deferred: {SEARCH}"), tools=[]), True),
    "a reminder": (body(user(OFFER, "go"), tools=[]), True),
    "a reminder beside results": (
        body(user("go"), assistant(use("t")), user(result("t"), OFFER), tools=[]),
        True,
    ),
    "a user who names it": (body(user(f"what is {SEARCH}?"), tools=[]), False),
    "an answer that names it": (body(user("go"), assistant(OFFER), user("so"), tools=[]), False),
    "a result that names it": (body(user("go"), assistant(use("t")), user(result("t", OFFER)), tools=[]), False),
    "our own instruction": (body(user("go"), tools=[], system=texts.STANDING_INSTRUCTION), False),
    "our own pointer": (body(user("go"), system(texts.pointer("s", 3)), tools=[]), False),
}


@pytest.mark.parametrize(("request_body", "offered"), OFFERS.values(), ids=OFFERS)
def test_our_tools_are_found_where_the_client_offers_them_and_nowhere_else(request_body: Json, offered: bool) -> None:
    assert anthropic.parse(encode(request_body)).offers_tools() == offered


def test_identity_is_system_texts_without_billing_and_instruction_then_the_first_user_text() -> None:
    head = [text("x-anthropic-billing-header: a=1"), text("one"), text("two"), text(texts.STANDING_INSTRUCTION)]
    conversation = parsed(user(REMINDER, "go"), assistant("yes"), user("more"), system=head)
    assert conversation.identity == f"one\ntwo\n{REMINDER}\ngo"


def test_all_that_names_a_session_is_read_whatever_its_type() -> None:
    original = {"metadata": {"user_id": "inner"}, "prompt_cache_key": "k2"}
    more = {
        "metadata": {"user_id": "outer"},
        "prompt_cache_key": "k1",
        "proxy_server_request": {"body": original},
    }
    conversation = parsed(user("go"), **more)
    assert conversation.users == ("outer", "inner")
    assert conversation.cache_keys == ("k1", "k2")
    odd = parsed(user("go"), metadata={"user_id": [1]}, prompt_cache_key=7)
    assert (odd.users, odd.cache_keys) == ((), ())


def test_cache_markers_are_placed_from_the_end_and_in_the_order_of_the_prefix() -> None:
    inner = result("toolu_1", [text("found", cache_control=MARK)])
    conversation = parsed(
        user(text("go", cache_control=MARK)),
        assistant(use("toolu_1")),
        user(inner, text("so", cache_control=MARK)),
        tools=[tool("Read", cache_control=MARK), tool(SEARCH)],
        system=[text("a"), text("b", cache_control=MARK)],
        cache_control=MARK,
    )
    assert conversation.cache_marks == ("tools", "system", "m-3", "m-1", "m-1", "m-1")
    assert parsed(user("go")).cache_marks == ()


def test_code_points_of_system_tools_texts_inputs_and_results_are_counted_without_signatures() -> None:
    tools = [tool("Read"), tool(SEARCH, defer_loading=True)]
    bare = parsed(user("go"), tools=tools)
    assert bare.head_chars == len(json.dumps(tools[0], separators=(",", ":")))
    with_system = parsed(user("go"), tools=tools, system=[text("x-anthropic-billing-header: x"), text("家" * 10)])
    assert with_system.head_chars == bare.head_chars + 10
    instructed = parsed(user("go"), tools=tools, system="家" * 10 + texts.STANDING_INSTRUCTION)
    assert instructed.head_chars == with_system.head_chars
    item = parsed(user("go"), assistant(thinking("家家", "s" * 900), "three", use("t", "Read", input={}))).items[1]
    assert (item.chars, item.signed_chars) == (2 + 5 + len("Read") + 2, 2)


@pytest.mark.parametrize(("kind", "manual"), [("enabled", True), ("adaptive", False), ("disabled", False)])
def test_only_a_thinking_budget_is_manual(kind: str, manual: bool) -> None:
    assert parsed(user("go"), thinking={"type": kind}).manual_reasoning == manual
    assert not parsed(user("go")).manual_reasoning


@pytest.mark.parametrize(
    "more",
    [{"output_config": {"format": {"type": "json_schema"}}}, {"output_format": {"type": "json_schema"}}],
)
def test_an_answer_by_schema_is_seen(more: Json) -> None:
    assert parsed(user("go"), **more).structured
    assert not parsed(user("go"), output_config={"effort": "high"}).structured


# --- what is refused ---------------------------------------------------------------------------------------

GOOD: Json = body(
    user("go", {"type": "image", "source": PNG}),
    assistant(thinking(), "yes", use("toolu_1")),
    user(result("toolu_1", [text("found")]), text("and", cache_control=MARK)),
    system("note"),
    system=[text("be brief")],
    thinking={"type": "adaptive"},
    metadata={"user_id": "u"},
    prompt_cache_key="k",
    output_config={"effort": "high"},
    proxy_server_request={"body": {"metadata": {"user_id": "u"}}},
)
ODD: list[Any] = [None, True, 0, -1.5, 1e300, "", "x", [], ["x"], [[]], [{}], {}, {"type": 1}, {"type": "text"}, 10**25]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, below in inner for place in _places(below, (*path, key)))]


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("path", _places(GOOD), ids=lambda path: ".".join(map(str, path)) or "all")
def test_a_field_of_another_type_is_refused_or_passed_and_never_raises_anything_else(path: tuple[Any, ...]) -> None:
    for odd in ODD:
        survives(encode(_with(GOOD, path, odd)))


BROKEN: dict[str, bytes] = {
    "a byte order mark": b"\xef\xbb\xbf" + encode(GOOD),
    "no object": b"[]",
    "no messages": b'{"model":"m"}',
    "a repeated key": b'{"messages":[],"messages":[]}',
    "NaN": encode(GOOD).replace(b'"max_tokens":1000', b'"max_tokens":NaN'),
    "invalid UTF-8": encode(GOOD).replace(b"be brief", b"be br\xff\xfef"),
    "deep nesting": b'{"messages":[{"role":"user","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}",
    "a number of five thousand digits": encode(GOOD).replace(b'"max_tokens":1000', b'"max_tokens":' + b"1" * 5000),
    "an unknown role": encode(body({"role": "tool", "content": "x"})),
    "a block without a type": encode(body(user({"text": "x"}))),
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN)
def test_what_is_no_request_of_the_wire_is_refused(raw: bytes) -> None:
    with pytest.raises(NotSplicable):
        anthropic.parse(raw)


def survives(raw: bytes) -> None:
    """Assert that a body is taken apart, decided and put together, or refused as NotSplicable."""
    try:
        conversation = anthropic.parse(raw)
        for policy in (SMALL, msgspec.structs.replace(SMALL, force=True)):
            decided = rewrite.decide(conversation, None, policy, sample=None)
            json.loads(anthropic.render(conversation, decided.rendering))
    except NotSplicable:
        pass


LONG = encode(
    {
        **GOOD,
        "messages": [
            *GOOD["messages"][:3],
            assistant("so"),
            user("half a pair HERE"),
            *(m for n in range(5) for m in (assistant(use(f"toolu_l{n}")), user(result(f"toolu_l{n}", "x" * 3000)))),
        ],
    }
).replace(b"HERE", b"\\ud83d 1E5")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_a_damaged_body_is_refused_or_survives_and_never_raises_anything_else(seed: int) -> None:
    chance = random.Random(seed)
    raw = bytearray(LONG)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(raw))
        match chance.randrange(5):
            case 0:
                raw[at] = chance.randrange(256)
            case 1:
                del raw[at : at + chance.randrange(1, 40)]
            case 2:
                raw[at:at] = chance.choice(
                    [b'"', b"{", b"}", b"[", b"]", b",", b"\\", b"\\ud800", b"\xff", b"null", b"1E5"]
                )
            case 3:
                other = chance.randrange(len(raw))
                raw[at:at] = raw[other : other + chance.randrange(60)]
            case _:
                raw[at : at + 1] = chance.choice([b"0", b":", b" ", b"\x00", b"-"])
    survives(bytes(raw))
