"""Hold the Responses wire to its bytes, one item and one place of a request at a time."""

import json
from typing import Any

import msgspec
import pytest
from openmem_addon.core import media, responses, texts
from openmem_addon.core.model import Conversation, Item
from openmem_addon.core.rendering import Rendering
from openmem_addon.core.source import NotSplicable
from openmem_addon.core.usage import Tap, Usage
from openmem_store.rows import Draft

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAGQAAADICAIAAACRcFC9AAAAAElFTkSuQmCC"
USER = '{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}'
CALL = '{"type":"function_call","call_id":"c1","name":"run","arguments":"{}"}'
OUTPUT = '{"type":"function_call_output","call_id":"c1","output":"found"}'
REPLY = '{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}'
TASK = (
    '{"type":"agent_message","author":"/root","recipient":"/root/look","content":['
    '{"type":"input_text","text":"Message Type: NEW_TASK\\nPayload:\\n"},'
    '{"type":"encrypted_content","encrypted_content":"gAAAA"}]}'
)
REPORT = TASK.replace("NEW_TASK", "FINAL_ANSWER")
PACKED = json.dumps('[{"type":"thinking","thinking":"t","signature":"s"}]')


def body(*items: str, **more: Any) -> bytes:
    """Return a request from the source of its items."""
    rest = "".join(f",{json.dumps(key)}:{json.dumps(value)}" for key, value in more.items())
    return f'{{"model":"m-1","input":[{",".join(items)}]{rest}}}'.encode()


def parsed(*items: str, **more: Any) -> Conversation:
    return responses.parse(body(*items, **more))


def item(source: str) -> Item:
    return parsed(source).items[0]


def drafts(source: str) -> list[tuple[str, str, str | None, str]]:
    return [(draft.role, draft.kind, draft.name, draft.text) for draft in item(source).drafts]


def rendered(conversation: Conversation, **more: Any) -> bytes:
    """Render a request with everything as it is but for what is given."""
    given: dict[str, Any] = {
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
    return responses.render(conversation, Rendering(**(given | more)))


# --- reading an item ---------------------------------------------------------------------------------------


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
        *((f'{{"type":"{name}"}}', "assistant") for name in responses.CALLS),
        *((f'{{"type":"{name}"}}', "results") for name in responses.OUTPUTS),
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


@pytest.mark.parametrize(
    ("part", "row"),
    [
        (f'{{"type":"input_image","image_url":"data:image/png;base64,{PIXEL}"}}', "[image image/png 60 bytes"),
        ('{"type":"input_image","image_url":"https://example.org/a.png"}', "[image 25 bytes"),
        ('{"type":"input_image","file_id":"file-1"}', "[image 6 bytes"),
        ('{"type":"input_file","file_data":"data:application/pdf;base64,AAAA"}', "[document application/pdf 4 bytes"),
        ('{"type":"input_file","file_url":"https://example.org/a.pdf"}', "[document 25 bytes"),
        ('{"type":"input_file"}', "[document 21 bytes"),
        ('{"type":"input_audio","x":1}', "[input_audio 28 bytes"),
    ],
)
def test_a_part_that_is_no_text_is_described(part: str, row: str) -> None:
    ((_, _, _, text),) = drafts(f'{{"role":"user","content":[{part}]}}')
    assert text.startswith(row + " sha256:")


def test_a_screenshot_is_described_and_weighed() -> None:
    shot = f'{{"type":"computer_screenshot","image_url":"data:image/png;base64,{PIXEL}"}}'
    read = item(f'{{"type":"computer_call_output","call_id":"c","output":{shot}}}')
    assert read.drafts[0].text.startswith("[image image/png 60 bytes sha256:")
    assert read.media == 85 + 170
    assert read.results == ()


def test_a_generated_image_is_described_and_weighed() -> None:
    read = item(f'{{"type":"image_generation_call","id":"ig_1","result":"{PIXEL}"}}')
    assert [draft.kind for draft in read.drafts] == ["tool_use", "tool_result"]
    assert read.drafts[1].text.startswith("[image 60 bytes sha256:")
    assert read.media == 85 + 170


def test_a_document_weighs_its_pages() -> None:
    read = item('{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}')
    assert read.media == media.PAGE_TOKENS


def test_an_output_is_named_by_its_call_namespace_included() -> None:
    called = '{"type":"function_call","call_id":"c1","namespace":"mcp__notes","name":"add","arguments":"{}"}'
    _, output = parsed(called, OUTPUT).items
    assert output.drafts == (Draft("tool", "tool_result", "mcp__notes__add", "found"),)


def test_calls_the_client_answers_are_pairs_and_the_providers_own_are_none() -> None:
    for name, kind in responses.CALLS.items():
        read = item(f'{{"type":"{name}","id":"i1","call_id":"c1","name":"run"}}')
        assert [call.id for call in read.calls] == (["c1"] if kind.answered else [])


def test_a_call_without_a_call_id_is_known_by_its_own() -> None:
    assert item('{"type":"local_shell_call","id":"i1","action":{}}').calls[0].id == "i1"


def test_an_output_that_names_no_call_answers_none() -> None:
    assert item('{"type":"tool_search_output","call_id":null,"tools":[]}').answers == ()


@pytest.mark.parametrize(
    ("encrypted", "signed"),
    [
        (PACKED, True),
        (json.dumps("litellm_enc:bW9kZWw=;" + json.loads(PACKED)), True),
        ('"[{\\"type\\":\\"redacted_thinking\\",\\"data\\":\\"d\\"}]"', True),
        ('"[{\\"type\\":\\"text\\"}]"', False),
        ('"[1]"', False),
        ('"[not json"', False),
        ('"litellm_enc:bW9kZWw=;gAAAA"', False),
        ('"gAAAAabc"', False),
        ('""', False),
        ("null", False),
    ],
)
def test_signed_reasoning_is_a_gateways_packing_of_blocks(encrypted: str, signed: bool) -> None:
    read = item(f'{{"type":"reasoning","summary":[],"encrypted_content":{encrypted}}}')
    assert read.signed == read.bare == signed
    assert read.reasons


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


# --- reading a request -------------------------------------------------------------------------------------


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


# --- writing -----------------------------------------------------------------------------------------------


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


# --- usage -------------------------------------------------------------------------------------------------

COUNTS = '{"input_tokens":1000,"output_tokens":5,"input_tokens_details":{"cached_tokens":900}}'


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response.failed"])
def test_a_final_event_reports_usage_without_what_was_cached(kind: str) -> None:
    event = f'{{"type":"{kind}","response":{{"id":"resp_1","store":false,"usage":{COUNTS}}}}}'
    expected = Usage(input_tokens=100, cache_read_tokens=900, output_tokens=5, final=True)
    assert responses.usage(event.encode()) == expected


def test_other_events_and_no_usage_report_nothing() -> None:
    assert responses.usage(b'{"type":"response.created","response":{"id":"resp_1","usage":null}}') is None
    assert responses.usage(b'{"type":"response.output_text.delta","delta":"usage"}') is None
    failed = responses.usage(b'{"type":"response.failed","response":{"id":"resp_1","store":false,"usage":null}}')
    assert failed == Usage(final=True)


def test_a_kept_response_reports_what_it_said_for_the_one_that_continues_it() -> None:
    said = f'{CALL},{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"half \\ud83d"}}]}}'
    answer = f'{{"id":"resp_1","output":[{said}],"usage":{COUNTS}}}'
    tap = Tap(responses.usage, content_type="application/json", content_encoding="")
    tap.feed(answer.encode())
    found = tap.result()
    assert found.response_id == "resp_1"
    assert found.output == (
        Draft("assistant", "tool_use", "run", "{}"),
        Draft("assistant", "text", None, "half \ufffd"),
    )


def test_a_response_that_is_not_kept_is_not_remembered() -> None:
    answer = f'{{"id":"resp_1","store":false,"output":[{CALL}],"usage":{COUNTS}}}'
    found = responses.usage(answer.encode())
    assert found is not None
    assert found.response_id is None
    assert found.output == ()
