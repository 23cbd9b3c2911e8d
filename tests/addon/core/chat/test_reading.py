"""Hold the reading of the Chat Completions wire, one message and one place of a request at a time."""

import pytest
from openmem_addon.core import chat
from openmem_addon.core.source import NotSplicable
from openmem_store.rows import Draft

from tests.addon.core.chat.made import TOLD, USER, drafts, item, parsed


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ('{"role":"system","content":"be brief"}', "pinned"),
        ('{"role":"developer","content":"be brief"}', "pinned"),
        (USER, "turn"),
        ('{"role":"user","content":[{"type":"text","text":"hello"}]}', "turn"),
        ('{"role":"user","content":[]}', "turn"),
        ('{"role":"user","content":"<system-reminder>a note</system-reminder>"}', "wrapper"),
        ('{"role":"user","content":"<system-reminder>a note</system-reminder> and I say"}', "turn"),
        ('{"role":"user","content":null}', "other"),
        ('{"role":"user"}', "other"),
        ('{"role":"assistant","content":"hi"}', "assistant"),
        ('{"role":"tool","tool_call_id":"c1","content":"found"}', "results"),
        ('{"role":"function","name":"run","content":"found"}', "results"),
    ],
)
def test_a_message_is_to_the_planner_what_its_role_and_content_say(message: str, kind: str) -> None:
    assert item(message).kind == kind


@pytest.mark.parametrize(
    ("message", "rows"),
    [
        (USER, [("user", "text", None, "hello")]),
        ('{"role":"assistant","content":null}', []),
        ('{"role":"assistant","content":""}', []),
        ('{"role":"assistant"}', []),
        ('{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}', [("assistant", "text", None, "no")]),
        (
            '{"role":"assistant","content":"so","reasoning_content":"because"}',
            [("assistant", "thinking", None, "because"), ("assistant", "text", None, "so")],
        ),
        ('{"role":"assistant","content":"so","reasoning_content":"  "}', [("assistant", "text", None, "so")]),
        (
            '{"role":"assistant","content":"so","reasoning_content":"because","thinking_blocks":'
            '[{"type":"thinking","thinking":"because","signature":"s"},{"type":"redacted_thinking","data":"d"}]}',
            [("assistant", "thinking", None, "because"), ("assistant", "text", None, "so")],
        ),
        (
            '{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"run","arguments":" {\\"b\\": 1E5} "}},'
            '{"id":"c2","custom":{"name":"apply","input":" {\\"a\\":  1}"}}]}',
            [("assistant", "tool_use", "run", '{"b":1E5}'), ("assistant", "tool_use", "apply", ' {"a":  1}')],
        ),
        (
            '{"role":"assistant","function_call":{"name":"run","arguments":"{cut off"}}',
            [("assistant", "tool_use", "run", "{cut off")],
        ),
        ('{"role":"tool","tool_call_id":"c9","content":"found"}', [("tool", "tool_result", None, "found")]),
        ('{"role":"tool","tool_call_id":"c9"}', [("tool", "tool_result", None, "")]),
        ('{"role":"user","content":"half \\ud83d"}', [("user", "text", None, "half \ufffd")]),
        (
            '{"role":"user","content":[[{"type":"text", "text":"a"}],7]}',
            [("user", "text", None, '[{"type":"text","text":"a"}]'), ("user", "text", None, "7")],
        ),
    ],
)
def test_a_message_becomes_one_row_for_each_thing_it_says(message: str, rows: list[object]) -> None:
    assert drafts(message) == rows


def test_a_result_is_named_by_the_call_with_its_id() -> None:
    called = (
        '{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"run","arguments":"{}"}}]}'
    )
    conversation = parsed(USER, called, '{"role":"tool","tool_call_id":"c1","content":"found"}')
    assert conversation.items[2].drafts == (Draft("tool", "tool_result", "run", "found"),)
    assert conversation.items[1].calls[0].id == conversation.items[2].answers[0]


def test_two_legacy_calls_of_one_function_are_two_pairs() -> None:
    called = '{"role":"assistant","content":null,"function_call":{"name":"run","arguments":"{}"}}'
    answered = '{"role":"function","name":"run","content":"found"}'
    items = parsed(USER, called, answered, called, answered).items
    assert items[1].calls[0].id == items[2].answers[0]
    assert items[3].calls[0].id == items[4].answers[0]
    assert items[1].calls[0].id != items[3].calls[0].id


def test_a_legacy_result_without_a_call_answers_nothing() -> None:
    assert item('{"role":"function","name":"run","content":"found"}').answers == ()


def test_signed_reasoning_is_the_gateways_field_alone() -> None:
    signed = item('{"role":"assistant","content":null,"thinking_blocks":[{"type":"thinking","thinking":"ab"}]}')
    assert signed.signed
    assert signed.bare
    assert signed.signed_chars == 2
    unsigned = item('{"role":"assistant","content":"so","reasoning_content":"because"}')
    assert not unsigned.signed
    assert unsigned.signed_chars == 0


@pytest.mark.parametrize(
    ("message", "replies", "opens"),
    [
        ('{"role":"assistant","content":"hi"}', True, True),
        ('{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f"}}]}', False, True),
        ('{"role":"assistant","function_call":{"name":"f"}}', False, True),
        (USER, False, False),
    ],
)
def test_a_reply_calls_no_tool(message: str, replies: bool, opens: bool) -> None:
    read = item(message)
    assert (read.replies, read.opens_step) == (replies, opens)


def test_a_result_may_be_compressed_unless_it_is_ours_or_holds_more_than_text() -> None:
    name = "mcp__openmem__smart_compact_get"
    called = (
        '{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"run"}},'
        f'{{"id":"c2","function":{{"name":"{name}"}}}}]}}'
    )
    texts_only = '{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}'
    ours = '{"role":"tool","tool_call_id":"c2","content":"a"}'
    pictured = '{"role":"tool","tool_call_id":"c1","content":[{"type":"image_url","image_url":{"url":"u"}}]}'
    _, first, second, third = parsed(called, texts_only, ours, pictured).items
    assert [result.text for result in first.results] == ["a\nb"]
    assert second.results == ()
    assert third.results == ()


def test_the_tools_of_every_form_are_known_by_name() -> None:
    conversation = parsed(
        USER,
        tools=[
            {"type": "function", "function": {"name": "run"}},
            {"type": "custom", "custom": {"name": "mcp__openmem__smart_compact_search"}},
            {"type": "odd"},
        ],
        functions=[{"name": "old"}],
    )
    assert conversation.tools == ("run", "mcp__openmem__smart_compact_search", "", "old")
    assert conversation.offers_tools()


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_leading_text_that_names_our_tool_offers_it(role: str) -> None:
    assert parsed(f'{{"role":"{role}","content":"call smart_compact_search"}}', USER).offers_tools()


def test_a_user_who_names_our_tool_does_not_offer_it() -> None:
    assert not parsed('{"role":"user","content":"call smart_compact_search"}').offers_tools()


def test_a_later_system_message_does_not_rename_the_session() -> None:
    leading = '{"role":"system","content":"be brief"}'
    reply = '{"role":"assistant","content":"hi"}'
    first = parsed(leading, USER)
    later = parsed(
        leading, USER, reply, '{"role":"developer","content":"be long"}', '{"role":"user","content":"go on"}'
    )
    assert first.identity == later.identity == "be brief\nhello"


def test_our_own_instruction_names_no_session() -> None:
    assert parsed(TOLD.decode(), USER).identity == parsed(USER).identity
    assert parsed(TOLD.decode(), USER).instructed


def test_a_request_for_a_schema_is_structured() -> None:
    assert parsed(USER, response_format={"type": "json_schema"}).structured
    assert not parsed(USER, response_format={"type": "text"}).structured


def test_either_limit_of_the_answer_is_read() -> None:
    assert parsed(USER, max_tokens=1).max_tokens == 1
    assert parsed(USER, max_completion_tokens=2).max_tokens == 2
    assert parsed(USER).max_tokens is None


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"[]",
        b"{}",
        b'{"messages":null}',
        b'{"messages":"hello"}',
        b'{"messages":[1]}',
        b'{"messages":[{"role":"robot"}]}',
        b'{"messages":[{"role":"user","content":1}]}',
        b'{"messages":[{"role":"user","content":[{"type":[]}]}]}',
        b'{"messages":[],"messages":[]}',
        b'{"messages":[],"max_tokens":' + b"9" * 5000 + b"}",
        b'{"messages":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'\xef\xbb\xbf{"messages":[]}',
        b'{"messages":[{"role":"user","content":"\xff"}]}',
        b'{"messages":[],"temperature":NaN}',
    ],
)
def test_what_is_no_request_is_not_spliced(broken: bytes) -> None:
    with pytest.raises(NotSplicable):
        chat.parse(broken)
