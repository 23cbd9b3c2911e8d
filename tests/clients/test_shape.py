"""Hold the shape of a request to its structure: nothing a person or a vendor wrote is in it."""

from fixtures.clients import pins, shape
from fixtures.clients.__main__ import DRIVERS, recorded
from fixtures.provider.exchange import Exchange
from fixtures.provider.wire import Json


def exchange(body: Json, *headers: tuple[str, str], path: str = "/v1/messages?beta=true") -> Exchange:
    return Exchange(number=1, method="POST", path=path, wire="messages", headers=headers, body=body, status=200)


def lines(body: Json, *headers: tuple[str, str]) -> list[str]:
    return [
        line for line in shape.shape([exchange(body, *headers)]) if line not in ("path /v1/messages", "query beta=true")
    ]


def test_a_path_and_its_query_are_lines() -> None:
    assert shape.shape([exchange({})]) == ["path /v1/messages", "query beta=true"]


def test_a_header_is_named_and_a_list_of_features_is_taken_apart() -> None:
    found = lines({}, ("X-App", "cli"), ("Anthropic-Beta", "a, b"), ("Content-Length", "7"), ("x-api-key", "secret"))
    assert found == ["anthropic-beta a", "anthropic-beta b", "header x-app"]


def test_fields_are_paths_with_types_and_names_stay() -> None:
    body = {
        "model": "a secret model",
        "stream": True,
        "max_tokens": 7,
        "thinking": {"type": "adaptive", "budget": None},
    }
    assert lines(body) == [
        "body.max_tokens: number",
        "body.model: text",
        "body.stream = True",
        "body.thinking.budget: null",
        "body.thinking.type = adaptive",
    ]


def test_items_are_told_apart_by_type_and_role_and_not_counted() -> None:
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "words"}]}
    assert lines({"input": [said, said, {"type": "compaction_trigger", "n": 1}]}) == [
        "body.input[compaction_trigger].n: number",
        "body.input[message/user].content[input_text].text: text",
    ]


def test_tools_are_names_of_any_wire_and_none_of_ours() -> None:
    tools = [
        {"name": "Read", "description": "words", "input_schema": {"type": "object"}},
        {"type": "function", "function": {"name": "grep", "parameters": {}}},
        {"type": "web_search"},
        {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]},
        {"name": "mcp__openmem__smart_compact_search"},
    ]
    assert lines({"tools": tools}) == ["body.tools", "tool Read", "tool functions.exec", "tool grep", "tool web_search"]


def test_what_a_tool_was_given_is_not_looked_into() -> None:
    call = {"type": "tool_use", "name": "Read", "input": {"a secret": 1}}
    assert "body.messages[assistant].content[tool_use].input: object" in lines(
        {"messages": [{"role": "assistant", "content": [call]}]}
    )


def test_differences_say_what_is_gone_and_what_is_new() -> None:
    assert shape.differences(["a", "b"], ["b", "c"]) == ["- a", "+ c"]
    assert shape.differences(["a"], ["a"]) == []


def test_every_pinned_client_has_a_driver_and_a_recorded_shape() -> None:
    assert set(pins.pins()) == set(DRIVERS)
    for name in DRIVERS:
        known = recorded(name).read_text().splitlines()
        assert known == sorted(set(known))
        assert any(line.startswith("path ") for line in known)


def test_no_recorded_shape_holds_a_text() -> None:
    for name in DRIVERS:
        assert all(len(line) < 200 for line in recorded(name).read_text().splitlines())
