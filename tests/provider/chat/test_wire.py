"""Reading a chat request."""

from fixtures.provider.chat import wire
from fixtures.provider.scenario import Said
from tests.provider.chat.bodies import LEGACY, PAIR, assistant, body, call, custom, system, tool, user


def test_a_string_is_one_text_part_and_nothing_is_none():
    assert wire.parts("go") == [{"type": "text", "text": "go"}]
    assert wire.parts(None) == wire.parts([]) == []
    assert wire.text([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]) == "a\nb"


def test_calls_of_both_types_are_read():
    message = assistant(None, call("call_1", "{}"), custom("call_2", "plain"))
    assert wire.call_ids(message) == ["call_1", "call_2"]
    assert [wire.called(one) for one in wire.calls(message)] == [("Read", "{}"), ("Note", "plain")]
    assert wire.function_call(LEGACY) == {"name": "Read", "arguments": "{}"}
    assert wire.function_call(message) is None


def test_a_history_is_what_user_and_model_said():
    request = body(system("SCENARIO:a"), *PAIR, tool(), user([{"type": "text", "text": "SCENARIO:b"}]))
    assert list(wire.said(request)) == [
        Said("user", "go"),
        Said("model", calls=("call_1",)),
        Said("user", "SCENARIO:b"),
    ]


def test_a_body_of_wrong_types_has_no_messages_and_no_tools():
    assert wire.messages({"messages": "x"}) == []
    assert wire.offered({"tools": {"a": 1}}, "tools") == []
