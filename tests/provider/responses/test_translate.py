"""A Responses request in Messages form."""

from fixtures.provider import canonical
from fixtures.provider.responses import translate, wire
from tests.provider.bodies import result, text, use
from tests.provider.responses.bodies import CLAUDE, assistant, body, call, output, user

BLOCK = {"type": "thinking", "thinking": "a thought", "signature": "sig"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": translate.packed([BLOCK])}


def translated(request):
    """Return the request in Messages form."""
    return translate.translated(request, wire.items(request["input"]))


def test_each_kind_of_item_has_its_place():
    request = body(
        {"role": "developer", "content": "two"},
        user(),
        REASONING,
        assistant("look"),
        call(),
        call("call_2", "custom_tool_call"),
        call("call_3", "local_shell_call"),
        output(),
        output("call_2", "custom_tool_call", [{"type": "input_text", "text": "noted"}]),
        output("call_3", "local_shell_call"),
        {"role": "developer", "content": "later"},
        assistant(""),
        user("more"),
        model=CLAUDE,
        instructions="one",
        reasoning={"effort": "high"},
    )
    made = translated(request)
    assert made["model"] == CLAUDE
    assert made["system"] == [text("one"), text("two")]
    assert [tool["name"] for tool in made["tools"]] == ["Read"]
    assert made["thinking"] == {"type": "adaptive", "display": "summarized"}
    custom = {"type": "tool_use", "id": "call_2", "name": "exec", "input": {"input": "plain text"}}
    shell = {
        "type": "tool_use",
        "id": "call_3",
        "name": "local_shell",
        "input": {"type": "exec", "command": ["ls"], "env": {}},
    }
    assert made["messages"] == [
        {"role": "user", "content": [text("go")]},
        {"role": "assistant", "content": [BLOCK, text("look"), use("call_1"), custom, shell]},
        {
            "role": "user",
            "content": [
                result("call_1", [text("done")]),
                result("call_2", [text("noted")]),
                result("call_3", [text("done")]),
            ],
        },
        {"role": "system", "content": [text("later")]},
        {"role": "assistant", "content": []},
        {"role": "user", "content": [text("more")]},
    ]


def test_what_follows_changes_nothing_before_it():
    start = body(user(), assistant("look"), call(), output())
    grown = body(*start["input"], assistant("done"), user("more"))
    before, after = canonical.prefixes(translated(start)), canonical.prefixes(translated(grown))
    assert after[: len(before)] == before


def test_only_a_list_of_signed_thinking_is_unpacked():
    assert translate.unpacked(REASONING) == [BLOCK]
    for content in (None, "gAAAA", '{"type":"thinking"}', '[{"type":"other"}]', "[1]"):
        assert translate.unpacked({**REASONING, "encrypted_content": content}) == []


def test_an_item_of_another_kind_is_carried_whole():
    search = {"type": "web_search_call", "id": "ws_1", "action": {}}
    assert translated(body(user(), search))["messages"][1] == {"role": "assistant", "content": [search]}
