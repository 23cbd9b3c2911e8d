"""Hold the writing of the Chat Completions wire to touching only what it must."""

import pytest
from openmem_addon.core import chat

from tests.addon.core.chat.made import TOLD, USER, body, parsed, rendered


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
