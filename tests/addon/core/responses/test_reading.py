"""Hold the reading of the Responses wire, one item and one place of a request at a time."""

import json

import pytest
from openmem_addon.core import responses, texts
from openmem_addon.core.responses import items
from openmem_addon.core.source import NotSplicable
from openmem_store.rows import Draft

from tests.addon.core.responses.made import (
    CALL,
    OUTPUT,
    REPLY,
    REPORT,
    TASK,
    USER,
    drafts,
    item,
    parsed,
)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (USER, "turn"),
        ('{"role":"user","content":"hello"}', "turn"),
        ('{"role":"user","content":"<environment_context>here</environment_context>"}', "wrapper"),
        ('{"role":"user","content":null}', "other"),
        ('{"role":"user"}', "other"),
        ('{"role":"user","content":{"type":"input_text","text":"hello"}}', "other"),
        ('{"role":"system","content":"be brief"}', "pinned"),
        ('{"type":"message","role":"developer","content":"be brief"}', "pinned"),
        ('{"type":"additional_tools","role":"developer","tools":[]}', "pinned"),
        ('{"type":"compaction","encrypted_content":"x"}', "pinned"),
        ('{"type":"compaction_summary","encrypted_content":"x"}', "pinned"),
        ('{"type":"mcp_list_tools","tools":[]}', "pinned"),
        ('{"type":"configuration_update","reasoning":{"effort":"low"}}', "pinned"),
        (TASK, "turn"),
        (REPORT, "other"),
        ('{"type":"agent_message","content":[]}', "other"),
        ('{"type":"reasoning","summary":[]}', "assistant"),
        (REPLY, "assistant"),
        *((f'{{"type":"{name}"}}', "assistant") for name in items.CALLS),
        *((f'{{"type":"{name}"}}', "results") for name in items.OUTPUTS),
        ('{"type":"compaction_trigger"}', "other"),
        ('{"type":"item_reference","id":"msg_1"}', "other"),
        ('{"type":"something_new"}', "other"),
    ],
)
def test_an_item_is_to_the_planner_what_its_type_says(source: str, kind: str) -> None:
    assert item(source).kind == kind


@pytest.mark.parametrize(
    ("source", "rows"),
    [
        (USER, [("user", "text", None, "hello")]),
        ('{"role":"user","content":""}', [("user", "text", None, "")]),
        ('{"role":"assistant","content":[{"type":"output_text","text":""}]}', []),
        ('{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}', [("assistant", "text", None, "no")]),
        (
            '{"type":"reasoning","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}]}',
            [("assistant", "thinking", None, "a\nb")],
        ),
        (
            '{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"a"}]}',
            [("assistant", "thinking", None, "a")],
        ),
        ('{"type":"reasoning","summary":[],"encrypted_content":"gAAAA"}', []),
        (
            '{"type":"function_call","call_id":"c","name":"run","arguments":" {\\"b\\": 1.50, \\"a\\": 2}"}',
            [("assistant", "tool_use", "run", '{"b":1.50,"a":2}')],
        ),
        (
            '{"type":"function_call","call_id":"c","name":"run","arguments":"{cut off"}',
            [("assistant", "tool_use", "run", "{cut off")],
        ),
        ('{"type":"function_call","call_id":"c","name":"run"}', [("assistant", "tool_use", "run", "{}")]),
        (
            '{"type":"custom_tool_call","call_id":"c","name":"exec","input":"{ \\"a\\" :  1 }"}',
            [("assistant", "tool_use", "exec", '{ "a" :  1 }')],
        ),
        ('{"type":"custom_tool_call","call_id":"c","name":"exec"}', [("assistant", "tool_use", "exec", "")]),
        (
            '{"type":"mcp_approval_response","approval_request_id":"a","approve":false,"reason":"not \\ud83c here"}',
            [("tool", "tool_result", None, '{"approve":false,"reason":"not \ufffd here"}')],
        ),
        (
            '{"type":"mcp_call","id":"m","name":"q","arguments":"{}","output":null,"error":{"code": 1}}',
            [("assistant", "tool_use", "q", "{}"), ("tool", "tool_result", "q", '{"code":1}')],
        ),
        (
            '{"type":"code_interpreter_call","code":"[1,  2]","outputs":[{"type":"logs","logs":"2"}]}',
            [
                ("assistant", "tool_use", "code_interpreter", "[1,  2]"),
                ("tool", "tool_result", "code_interpreter", "2"),
            ],
        ),
        ('{"type":"web_search_call","action":{"q": "x"}}', [("assistant", "tool_use", "web_search", '{"q":"x"}')]),
        ('{"type":"function_call_output","call_id":"c","output":"a"}', [("tool", "tool_result", None, "a")]),
        ('{"type":"function_call_output","call_id":"c","output":""}', [("tool", "tool_result", None, "")]),
        ('{"type":"function_call_output","call_id":"c","output":{"a": 1}}', [("tool", "tool_result", None, '{"a":1}')]),
        (
            '{"type":"shell_call_output","call_id":"c","output":[{"stdout":"a","stderr":"b"},{"stdout":"c","stderr":""}]}',
            [("tool", "tool_result", None, "a\nb\nc")],
        ),
        (
            TASK,
            [
                ("user", "text", None, "Message Type: NEW_TASK\nPayload:\n"),
                ("user", "text", None, "[encrypted_content 56 bytes sha256:b397321e5d94202e]"),
            ],
        ),
        ('{"type":"configuration_update","reasoning":{"effort":"low"}}', []),
        ('{"type":"compaction","encrypted_content":"x"}', []),
        ('{"type":"compaction_trigger"}', []),
    ],
)
def test_an_item_becomes_one_row_for_each_thing_it_says(source: str, rows: list[object]) -> None:
    assert drafts(source) == rows


def test_an_unknown_item_is_described_not_lost() -> None:
    ((role, kind, _, text),) = drafts('{"type":"something_new","x":1}')
    assert (role, kind) == ("user", "text")
    assert text.startswith("[something_new 30 bytes sha256:")


def test_an_output_is_named_by_its_call_namespace_included() -> None:
    called = '{"type":"function_call","call_id":"c1","namespace":"mcp__notes","name":"add","arguments":"{}"}'
    _, output = parsed(called, OUTPUT).items
    assert output.drafts == (Draft("tool", "tool_result", "mcp__notes__add", "found"),)


def test_a_step_is_one_exchange_however_many_items_the_model_made() -> None:
    reasoning = '{"type":"reasoning","summary":[]}'
    second = CALL.replace("c1", "c2")
    items = parsed(USER, reasoning, REPLY, CALL, reasoning, second, OUTPUT, OUTPUT.replace("c1", "c2"), CALL).items
    assert [place for place, read in enumerate(items) if read.opens_step] == [1, 8]


def test_only_a_message_is_a_reply() -> None:
    assert item(REPLY).replies
    assert not item(CALL).replies
    assert not item('{"type":"reasoning","summary":[]}').replies
    assert not item(USER).replies


def test_text_outputs_may_be_compressed_and_no_others() -> None:
    parts = '[{"type":"input_text","text":"a"},{"type":"output_text","text":"b"}]'
    assert [r.text for r in item(OUTPUT).results] == ["found"]
    assert [r.text for r in item(OUTPUT.replace('"found"', parts)).results] == ["a\nb"]
    for other in ('{"a":1}', '[{"type":"input_image","image_url":"u"}]', '[{"stdout":"a"}]'):
        assert item(OUTPUT.replace('"found"', other)).results == ()
    assert item('{"type":"tool_search_output","call_id":"c","tools":[{"type":"function","name":"f"}]}').results == ()


@pytest.mark.parametrize(
    "call",
    [
        '{"type":"function_call","call_id":"c1","name":"mcp__openmem__smart_compact_get","arguments":"{}"}',
        '{"type":"function_call","call_id":"c1","namespace":"mcp__openmem","name":"smart_compact_sql","arguments":"{}"}',
        '{"type":"custom_tool_call","call_id":"c1","name":"exec","input":"tools.mcp__openmem__smart_compact_search()"}',
    ],
)
def test_an_answer_of_ours_is_never_compressed(call: str) -> None:
    _, output = parsed(call, OUTPUT).items
    assert output.results == ()


def test_a_search_loads_the_tools_it_found() -> None:
    found = (
        '{"type":"tool_search_output","call_id":"c","tools":[{"type":"function","name":"add"},'
        '{"type":"namespace","name":"mcp__openmem","tools":[{"type":"function","name":"smart_compact_search"}]}]}'
    )
    assert item(found).loads == ("add", "mcp__openmem__smart_compact_search")


def test_a_string_input_is_one_users_message() -> None:
    conversation = responses.parse(b'{"input":"say \\ud83d hello"}')
    (read,) = conversation.items
    assert read.kind == "turn"
    assert read.drafts == (Draft("user", "text", None, "say \ufffd hello"),)


def test_tools_are_offered_at_the_top_and_in_an_item() -> None:
    top = parsed(USER, tools=[{"type": "function", "name": "run"}, {"type": "web_search"}])
    assert top.tools == ("run", "web_search")
    space = {"type": "namespace", "name": "mcp__openmem", "tools": [{"name": "smart_compact_search"}]}
    inside = parsed(json.dumps({"type": "additional_tools", "role": "developer", "tools": [space]}), USER)
    assert inside.tools == ("mcp__openmem__smart_compact_search",)
    assert inside.offers_tools()


def test_instructions_and_developer_messages_offer_our_tool_in_words() -> None:
    assert parsed(USER, instructions="call smart_compact_search").offers_tools()
    assert parsed('{"role":"developer","content":"call smart_compact_search"}', USER).offers_tools()
    assert not parsed('{"role":"user","content":"call smart_compact_search"}').offers_tools()
    assert not parsed(USER, instructions=texts.STANDING_INSTRUCTION).offers_tools()


def test_a_later_developer_message_does_not_rename_the_session() -> None:
    leading = '{"role":"developer","content":"be brief"}'
    first = parsed(leading, USER, instructions="You are an agent.")
    later = parsed(
        leading, USER, REPLY, '{"role":"developer","content":"be long"}', USER, instructions="You are an agent."
    )
    assert first.identity == later.identity == "You are an agent.\nbe brief\nhello"


def test_our_own_instruction_names_no_session() -> None:
    bare = parsed(USER, instructions="You are an agent.")
    told = parsed(USER, instructions=f"You are an agent.\n\n{texts.STANDING_INSTRUCTION}")
    assert told.identity == bare.identity
    assert told.instructed
    assert not bare.instructed


def test_a_request_says_what_it_continues_and_whether_it_may_be_continued() -> None:
    assert parsed(USER, previous_response_id="resp_1").previous == "resp_1"
    assert parsed(USER).previous is None
    assert parsed(USER).kept
    assert parsed(USER, store=True).kept
    assert not parsed(USER, store=False).kept


def test_a_trigger_at_the_end_makes_a_request_a_compaction() -> None:
    trigger = '{"type":"compaction_trigger"}'
    assert parsed(USER, trigger).compacts
    assert not parsed(trigger, USER).compacts


def test_a_request_for_a_schema_is_structured() -> None:
    assert parsed(USER, text={"format": {"type": "json_schema"}}).structured
    assert not parsed(USER, text={"format": {"type": "text"}}).structured
    assert not parsed(USER, text={}).structured


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"[]",
        b"{}",
        b'{"input":null}',
        b'{"input":1}',
        b'{"input":[1]}',
        b'{"input":[{"role":"robot"}]}',
        b'{"input":[{"type":1}]}',
        b'{"input":[{"type":"function_call","call_id":1}]}',
        b'{"input":[],"input":[]}',
        b'{"input":[],"instructions":["a"]}',
        b'{"input":[],"previous_response_id":1}',
        b'{"input":[],"max_output_tokens":' + b"9" * 5000 + b"}",
        b'{"input":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'\xef\xbb\xbf{"input":[]}',
        b'{"input":"\xff"}',
    ],
)
def test_what_is_no_request_is_not_spliced(broken: bytes) -> None:
    with pytest.raises(NotSplicable):
        responses.parse(broken)
