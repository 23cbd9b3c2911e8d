"""A chat request in Messages form."""

from fixtures.provider import canonical
from fixtures.provider.chat.translate import translated
from tests.provider.bodies import result, text, use
from tests.provider.chat.bodies import (
    CLAUDE,
    FUNCTION,
    LEGACY,
    assistant,
    body,
    call,
    custom,
    system,
    tool,
    user,
)

SIGNED = {"type": "thinking", "thinking": "a thought", "signature": "sig"}


def test_each_kind_of_message_has_its_place():
    request = body(
        system("one"),
        {"role": "developer", "content": [text("two")]},
        user("go"),
        assistant("look", call(), custom("call_2"), thinking_blocks=[SIGNED], reasoning_content="a thought"),
        tool(),
        tool("call_2", [text("noted")]),
        system("later"),
        assistant(""),
        user("more"),
        model=CLAUDE,
        reasoning_effort="high",
    )
    made = translated(request)
    assert made["model"] == CLAUDE
    assert made["system"] == [text("one"), text("two")]
    assert [tool["name"] for tool in made["tools"]] == ["Read"]
    assert made["thinking"] == {"type": "adaptive", "display": "summarized"}
    note = {"type": "tool_use", "id": "call_2", "name": "Note", "input": {"input": "plain"}}
    assert made["messages"] == [
        {"role": "user", "content": [text("go")]},
        {"role": "assistant", "content": [SIGNED, text("look"), use("call_1"), note]},
        {"role": "user", "content": [result("call_1", [text("done")]), result("call_2", [text("noted")])]},
        {"role": "system", "content": [text("later")]},
        {"role": "assistant", "content": []},
        {"role": "user", "content": [text("more")]},
    ]


def test_the_legacy_form_is_translated_too():
    made = translated(body(user("go"), LEGACY, FUNCTION))
    assert made["messages"][1]["content"] == [use("Read", input={})]
    assert made["messages"][2]["content"] == [result("Read", [text("done")])]


def test_what_follows_changes_nothing_before_it():
    start = body(system(), user("go"), assistant("look", call()), tool())
    grown = body(*start["messages"], assistant("done"), user("more"))
    before, after = canonical.prefixes(translated(start)), canonical.prefixes(translated(grown))
    assert after[: len(before)] == before
