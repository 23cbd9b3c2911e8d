"""Reading a Responses request."""

import pytest

from fixtures.provider.responses import wire
from fixtures.provider.scenario import Said
from tests.provider.responses.bodies import COMPACTED, THOUGHT, assistant, call, output, user


def test_an_input_is_items_whatever_its_form():
    assert wire.items("go") == [user()]
    assert wire.items([user(), "x"]) == [user()]
    assert wire.items(None) == []


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        ({"type": "reasoning"}, "reasoning"),
        ({"role": "user", "content": "x"}, "message"),
        ({"id": "rs_1"}, "item_reference"),
        ({"id": "rs_1", "type": None}, "item_reference"),
    ],
)
def test_an_item_without_a_type_is_a_message_or_a_reference(item, kind):
    assert wire.kind(item) == kind


def test_a_string_is_one_part_in_the_form_of_its_side():
    assert wire.parts(user("a")) == [{"type": "input_text", "text": "a"}]
    assert wire.parts(assistant("a")) == [{"type": "output_text", "text": "a"}]
    assert wire.parts(output(content="a"), "output") == [{"type": "input_text", "text": "a"}]
    assert wire.text(user([{"type": "input_text", "text": "a"}, {"type": "input_image"}])) == "a"


@pytest.mark.parametrize(
    ("item", "made"),
    [
        (assistant(), True),
        (call(kind="shell_call"), True),
        ({"type": "reasoning"}, True),
        ({"type": "web_search_call"}, True),
        (user(), False),
        (output(kind="shell_call"), False),
        ({"type": "additional_tools", "role": "developer", "tools": []}, False),
        ({"type": "mcp_approval_response"}, False),
        ({"type": "compaction_trigger"}, False),
        ({"type": "agent_message"}, False),
    ],
)
def test_which_items_the_model_makes(item, made):
    assert wire.made_by_model(item) is made


def test_blanks_in_arguments_are_nothing_and_what_is_no_json_stays():
    assert wire.given(call(arguments='{ "a": 1 }')) == {"a": 1}
    assert wire.given(call(arguments='{"a')) == '{"a'
    assert wire.given(call(kind="custom_tool_call")) == "plain text"


def test_a_search_the_server_ran_pairs_with_nothing():
    search = call(kind="tool_search_call")
    assert wire.call_id(search) == "call_1"
    assert wire.call_id({**search, "execution": "server"}) is None
    assert wire.call_id({**search, "call_id": None}) is None


def test_the_items_of_one_answer_are_one_thing_said():
    history = [*THOUGHT["input"], assistant(), user("SCENARIO:a"), COMPACTED, assistant(), call("call_2")]
    name = THOUGHT["input"][2]["call_id"]
    assert list(wire.said(history, {COMPACTED["id"]: "all that was"})) == [
        Said("user", "go"),
        Said("model", calls=(name,)),
        Said("model"),
        Said("user", "SCENARIO:a"),
        Said("user", "all that was"),
        Said("model", calls=("call_2",)),
    ]


def test_what_another_agent_says_is_heard_with_its_secret_part():
    said = [{"type": "input_text", "text": "a task"}, {"type": "encrypted_content", "encrypted_content": "SCENARIO:a"}]
    history = [{"type": "agent_message", "content": said}, assistant()]
    assert list(wire.said(history, {})) == [Said("user", "a task\nSCENARIO:a"), Said("model")]
