"""Hold the writing of the Responses wire to touching only what it must."""

import msgspec
import pytest
from openmem_addon.core import responses, texts

from tests.addon.core.responses.made import CALL, REPLY, TASK, USER, body, parsed, rendered


def test_a_request_that_nothing_changes_is_the_clients_bytes() -> None:
    raw = b' {"input" : [ {"role":"user" ,"content":"a\\/b \\ud83d" } ] , "n": 1E5 }\n'
    assert rendered(responses.parse(raw)) == raw


def test_a_dropped_item_leaves_every_other_byte() -> None:
    last = '{ "content" : "\\u00e9" , "role":"user","id":"msg_1" }'
    assert rendered(parsed(USER, REPLY, last, seed=-0.0), kept=(0, 2)) == body(USER, last, seed=-0.0)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"input":"x"}', b'{"input":"x","instructions":"TOLD"}'),
        (b'{"instructions":null,"input":"x"}', b'{"instructions":"TOLD","input":"x"}'),
        (b'{"instructions":"","input":"x"}', b'{"instructions":"TOLD","input":"x"}'),
        (
            b'{"instructions":"a\\/b \\ud83d","input":"x", "n":1e2}',
            b'{"instructions":"a\\/b \\ud83d\\n\\nTOLD","input":"x", "n":1e2}',
        ),
    ],
)
def test_the_instruction_is_appended_to_instructions(before: bytes, after: bytes) -> None:
    told = msgspec.json.encode(texts.STANDING_INSTRUCTION)[1:-1]
    assert rendered(responses.parse(before), instruct=True) == after.replace(b"TOLD", told)


def test_a_request_that_holds_the_instruction_is_left_alone() -> None:
    conversation = parsed(USER, instructions=texts.STANDING_INSTRUCTION)
    assert rendered(conversation, instruct=True) == conversation.body


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ('"say \\ud83d"', '[{"type":"input_text","text":"a note"},{"type":"input_text","text":"say \\ud83d"}]'),
        (
            '[ {"type":"input_text","text":"hi"} , {"type":"odd","x":1e2}]',
            '[{"type":"input_text","text":"a note"},{"type":"input_text","text":"hi"},{"type":"odd","x":1e2}]',
        ),
        ("[]", '[{"type":"input_text","text":"a note"}]'),
    ],
)
def test_the_note_is_a_part_of_its_own_before_the_turns_parts(content: str, written: str) -> None:
    conversation = parsed(f'{{"role":"user","content":{content},"id":"msg_1"}}')
    assert rendered(conversation, note="a note", noted=0) == body(f'{{"role":"user","content":{written},"id":"msg_1"}}')


def test_what_another_agent_says_is_not_added_to() -> None:
    """It has an author, and a part that only the provider can read: the note is a message before it."""
    conversation = parsed(TASK, CALL)
    note = '{"type":"message","role":"user","content":[{"type":"input_text","text":"a note"}]}'
    assert rendered(conversation, note="a note", noted=0) == body(note, TASK, CALL)


def test_a_string_input_that_gets_a_note_becomes_one_message() -> None:
    conversation = responses.parse(b'{"input":"say \\ud83d","n":1}')
    parts = '[{"type":"input_text","text":"a note"},{"type":"input_text","text":"say \\ud83d"}]'
    expected = f'{{"input":[{{"type":"message","role":"user","content":{parts}}}],"n":1}}'
    assert rendered(conversation, note="a note", noted=0) == expected.encode()


@pytest.mark.parametrize(
    ("output", "written"),
    [
        ('"long"', '"short"'),
        (
            '[{"type":"input_text","text":"lo"},{"type":"input_text","text":"ng"}]',
            '[{"type":"input_text","text":"short"}]',
        ),
    ],
)
def test_a_compressed_output_keeps_its_shape(output: str, written: str) -> None:
    source = f'{{"output":{output},"call_id":"c1","type":"function_call_output"}}'
    expected = f'{{"output":{written},"call_id":"c1","type":"function_call_output"}}'
    assert rendered(parsed(source), compressed={0: {0: "short"}}) == body(expected)
