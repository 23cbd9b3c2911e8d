"""Hold the Chat Completions wire to its bytes, one place of a request at a time."""

import json
from typing import Any

import msgspec
import pytest
from openmem_addon.core import chat, media, texts
from openmem_addon.core.model import Conversation, Item
from openmem_addon.core.rendering import Rendering
from openmem_addon.core.source import NotSplicable
from openmem_addon.core.usage import Usage
from openmem_store.rows import Draft

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAGQAAADICAIAAACRcFC9AAAAAElFTkSuQmCC"
TOLD = msgspec.json.encode({"role": "system", "content": texts.STANDING_INSTRUCTION})


def body(*messages: str, **more: Any) -> bytes:
    """Return a request from the source of its messages."""
    rest = "".join(f",{json.dumps(key)}:{json.dumps(value)}" for key, value in more.items())
    return f'{{"model":"m-1","messages":[{",".join(messages)}]{rest}}}'.encode()


def parsed(*messages: str, **more: Any) -> Conversation:
    return chat.parse(body(*messages, **more))


def item(message: str) -> Item:
    return parsed(message).items[0]


def drafts(message: str) -> list[tuple[str, str, str | None, str]]:
    return [(draft.role, draft.kind, draft.name, draft.text) for draft in item(message).drafts]


def rendering(conversation: Conversation, **more: Any) -> Rendering:
    """Return a rendering that keeps everything as it is but for what is given."""
    given = {
        "instruct": False,
        "kept": tuple(range(len(conversation.items))),
        "stripped": frozenset(),
        "emptied": frozenset(),
        "note": "",
        "noted": None,
        "moved": (),
        "moved_after": None,
        "valve": False,
        "compressed": {},
    }
    return Rendering(**(given | more))


def rendered(conversation: Conversation, **more: Any) -> bytes:
    return chat.render(conversation, rendering(conversation, **more))


USER = '{"role":"user","content":"hello"}'


# --- reading a message -------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("part", "row"),
    [
        (f'{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{PIXEL}"}}}}', "[image image/png 60 bytes"),
        ('{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}', "[image 25 bytes"),
        (
            '{"type":"file","file":{"file_data":"data:application/pdf;base64,AAAA"}}',
            "[document application/pdf 4 bytes",
        ),
        ('{"type":"file","file":{"file_data":"AAAA"}}', "[document 4 bytes"),
        ('{"type":"file","file":{"file_id":"file-1"}}', "[document 6 bytes"),
        ('{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}', "[input_audio audio/wav 4 bytes"),
        ('{"type":"other_thing","x":1}', "[other_thing 28 bytes"),
    ],
)
def test_a_part_that_is_no_text_is_described(part: str, row: str) -> None:
    (draft,) = item(f'{{"role":"user","content":[{part}]}}').drafts
    assert draft.text.startswith(row + " sha256:")


def test_a_part_is_described_the_same_with_and_without_a_cache_marker() -> None:
    bare = item('{"role":"user","content":[{"type":"other_thing","x":1}]}')
    marked = item('{"role":"user","content":[{"type":"other_thing","x":1,"cache_control":{"type":"ephemeral"}}]}')
    assert bare.drafts == marked.drafts


@pytest.mark.parametrize(
    ("part", "weight"),
    [
        ('{"type":"image_url","image_url":{"url":"https://example.org/a.png","detail":"low"}}', 85),
        (f'{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{PIXEL}"}}}}', 85 + 170),
        ('{"type":"file","file":{"file_id":"file-1"}}', media.PAGE_TOKENS),
        ('{"type":"text","text":"hello"}', 0),
    ],
)
def test_a_part_weighs_what_the_provider_bills(part: str, weight: int) -> None:
    assert item(f'{{"role":"user","content":[{part}]}}').media == weight


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


# --- reading a request -------------------------------------------------------------------------------------


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


# --- writing -----------------------------------------------------------------------------------------------


def test_a_request_that_nothing_changes_is_the_clients_bytes() -> None:
    raw = b' {"messages" : [ {"role":"user" ,"content":"a\\/b \\ud83d" } ] , "n": 1E5 }\n'
    conversation = chat.parse(raw)
    assert rendered(conversation) == raw


def test_a_dropped_message_leaves_every_other_byte() -> None:
    first = '{"role":"user","content":"a\\/b","weight":0.10}'
    last = '{ "content" : "\\u00e9" , "role":"user" }'
    conversation = parsed(first, '{"role":"assistant","content":"hi"}', last, seed=-0.0)
    assert rendered(conversation, kept=(0, 2)) == body(first, last, seed=-0.0)


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([USER], 0),
        (['{"role":"system","content":"a"}', USER], 1),
        (['{"role":"system","content":"a"}', '{"role":"developer","content":"b"}', USER], 2),
        (['{"role":"system","content":"a"}', USER, '{"role":"system","content":"b"}'], 1),
    ],
)
def test_the_instruction_follows_the_leading_system_messages(messages: list[str], place: int) -> None:
    conversation = parsed(*messages)
    expected = [*messages[:place], TOLD.decode(), *messages[place:]]
    assert rendered(conversation, instruct=True) == body(*expected)


def test_a_request_that_holds_the_instruction_is_left_alone() -> None:
    conversation = parsed(TOLD.decode(), USER)
    assert rendered(conversation, instruct=True) == conversation.body


def test_the_note_opens_a_string_content_followed_by_a_blank_line() -> None:
    conversation = parsed('{"role":"user","content":"say \\"hi\\" \\ud83d","name":"ann"}')
    expected = '{"role":"user","content":"a note\\n\\nsay \\"hi\\" \\ud83d","name":"ann"}'
    assert rendered(conversation, note="a note", noted=0) == body(expected)


def test_the_note_is_a_part_of_its_own_before_a_list() -> None:
    conversation = parsed('{"role":"user","content":[ {"type":"text","text":"hi"} ,{"x":1e2,"type":"odd"}]}')
    expected = (
        '{"role":"user","content":[{"type":"text","text":"a note"},{"type":"text","text":"hi"},{"x":1e2,"type":"odd"}]}'
    )
    assert rendered(conversation, note="a note", noted=0) == body(expected)


def test_signed_blocks_leave_and_unsigned_reasoning_stays() -> None:
    message = (
        '{"role":"assistant","content":null,"thinking_blocks":[{"type":"thinking","thinking":"t"}],'
        '"reasoning_content":"t","tool_calls":[{"id":"c1","function":{"name":"run","arguments":"{ }"}}],"x":1.50}'
    )
    expected = (
        '{"role":"assistant","content":null,"reasoning_content":"t",'
        '"tool_calls":[{"id":"c1","function":{"name":"run","arguments":"{ }"}}],"x":1.50}'
    )
    assert rendered(parsed(message), stripped=frozenset({0})) == body(expected)


def test_a_compressed_string_stays_a_string() -> None:
    conversation = parsed('{"tool_call_id":"c1","content":"long","role":"tool"}')
    expected = '{"tool_call_id":"c1","content":"short","role":"tool"}'
    assert rendered(conversation, compressed={0: {0: "short"}}) == body(expected)


def test_compressed_parts_become_one_that_keeps_the_last_ones_fields() -> None:
    conversation = parsed(
        '{"role":"tool","content":[{"type":"text","text":"a"},'
        '{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}]}'
    )
    expected = '{"role":"tool","content":[{"type":"text","text":"short","cache_control":{"type":"ephemeral"}}]}'
    assert rendered(conversation, compressed={0: {0: "short"}}) == body(expected)


# --- usage -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ('{"usage":null}', None),
        ('{"choices":[]}', None),
        (
            '{"usage":{"prompt_tokens":1000,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":900}}}',
            Usage(input_tokens=100, cache_read_tokens=900, output_tokens=5, final=True),
        ),
        (
            '{"usage":{"prompt_tokens":12,"completion_tokens":5}}',
            Usage(input_tokens=12, output_tokens=5, final=True),
        ),
        (
            '{"usage":{"prompt_tokens":100,"completion_tokens":5,"cache_read_input_tokens":60,'
            '"cache_creation_input_tokens":30,"prompt_tokens_details":{"cached_tokens":1}}}',
            Usage(input_tokens=10, cache_read_tokens=60, cache_creation_tokens=30, output_tokens=5, final=True),
        ),
        (
            '{"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cache_creation_tokens":30}}}',
            Usage(input_tokens=70, cache_creation_tokens=30, final=True),
        ),
        (
            '{"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cache_write_tokens":30}}}',
            Usage(input_tokens=70, cache_creation_tokens=30, final=True),
        ),
        ('{"usage":{"completion_tokens":5}}', Usage(output_tokens=5, final=True)),
    ],
)
def test_usage_is_what_was_reported_and_nothing_where_it_was_not(reported: str, expected: Usage | None) -> None:
    assert chat.usage(reported.encode()) == expected
