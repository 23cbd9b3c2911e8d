"""The chat wire over HTTP."""

import json

import httpx
import pytest

from fixtures.provider.scenario import Call, Failure, Step
from fixtures.provider.server import Provider, serve
from tests.provider.chat.bodies import CLAUDE, HEADERS, MODEL, assistant, body, changed, system, tool, user

SCRIPTS = {
    "build": (
        Step(thinking="look first", text="Reading.", tools=(Call("Read", {"path": "a.txt"}),)),
        Step(text="Done."),
    ),
    "breaks": (Step(error=Failure(after=2, status=503, type="server_error", message="Too busy"), text="x"),),
    "cut": (Step(text="words " * 200, cut_after=4),),
    "two": (Step(tools=(Call("Read"), Call("Read"))),),
}
PATH = "/v1/chat/completions"
START = body(system("word " * 1_500), user("Work. SCENARIO:build"))


@pytest.fixture
def provider():
    return Provider(SCRIPTS, now=lambda: 7.0)


@pytest.fixture
def client(provider):
    with serve(provider) as running, httpx.Client(base_url=running.url, trust_env=False) as opened:
        opened.headers.update(HEADERS)
        yield opened


def data(response):
    """Return the data of a stream's events."""
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


def test_a_script_runs_through_tool_calls_with_its_cache(client, provider):
    first = client.post(PATH, json=START).json()
    message = first["choices"][0]["message"]
    grown = changed(START, messages=[*START["messages"], message, tool(message["tool_calls"][0]["id"])])
    second = client.post(PATH, json=grown).json()
    assert [first["choices"][0]["finish_reason"], second["choices"][0]["finish_reason"]] == ["tool_calls", "stop"]
    assert second["choices"][0]["message"]["content"] == "Done."
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    whole = first["usage"]["prompt_tokens"] // 128 * 128
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == whole > 1_500
    assert first["usage"]["completion_tokens_details"]["reasoning_tokens"] == 2
    assert [(seen.wire, seen.scenario, seen.step) for seen in provider.exchanges] == [
        ("chat", "build", 0),
        ("chat", "build", 1),
    ]
    assert provider.exchanges[0].content == [message]


def test_a_stream_says_what_a_plain_answer_says(client):
    asked = {**START, "stream": True, "stream_options": {"include_usage": True}}
    streamed = client.post(PATH, json=asked)
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
    chunks = data(streamed)
    plain = client.post(PATH, json=START).json()
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    assert text == plain["choices"][0]["message"]["content"]
    assert chunks[-1]["usage"]["completion_tokens"] == plain["usage"]["completion_tokens"]
    assert (plain["created"], plain["model"]) == (7, MODEL)


def test_without_being_asked_a_stream_reports_no_usage(client):
    assert all("usage" not in chunk for chunk in data(client.post(PATH, json={**START, "stream": True})))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/v1/chat/completions", "/chat/completions?x=1"])
def test_any_prefix_serves(client, path):
    assert client.post(path, json=START).status_code == 200


def test_a_refusal_has_openais_shape_and_is_recorded(client, provider):
    answer = client.post(PATH, json=body(tool()))
    assert answer.status_code == 400
    assert answer.json() == {
        "error": {
            "message": "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
            "'tool_calls'.",
            "type": "invalid_request_error",
            "param": "messages.[0].role",
            "code": None,
        }
    }
    assert answer.headers["x-request-id"].startswith("req_")
    assert [seen.rule for seen in provider.refusals] == ["tool_unexpected"]


@pytest.mark.parametrize(("method", "path"), [("GET", PATH), ("DELETE", f"{PATH}/chatcmpl-1")])
def test_any_other_request_below_the_path_is_not_found_in_openais_shape(client, method, path):
    answer = client.request(method, path)
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == f"Invalid URL ({method} {path})"


def test_a_body_that_is_no_object_is_refused_in_openais_shape(client):
    for content in (b"{", b"[]"):
        assert client.post(PATH, content=content).json()["error"]["type"] == "invalid_request_error"


def test_a_scripted_error_may_come_inside_the_stream(client):
    lines = client.post(PATH, json=body(user("SCENARIO:breaks"), stream=True)).text.strip().split("\n\n")
    assert len(lines) == 3
    error = {"message": "Too busy", "type": "server_error", "param": None, "code": None}
    assert json.loads(lines[-1].removeprefix("data: ")) == {"error": error}


def test_a_scripted_cut_breaks_the_stream(client):
    with pytest.raises(httpx.RemoteProtocolError):
        client.post(PATH, json=body(user("SCENARIO:cut"), stream=True))


def test_a_step_the_wire_has_no_form_for_is_named(client):
    legacy = changed(body(user("SCENARIO:two")), tools=None, functions=[{"name": "Read"}])
    assert "one call in a step" in client.post(PATH, json=legacy).json()["error"]["message"]


def test_a_request_for_json_gets_the_smallest_value_of_its_schema(client):
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    form = {"type": "json_schema", "json_schema": {"name": "title", "schema": schema}}
    answer = client.post(PATH, json={**START, "response_format": form}).json()
    assert answer["choices"][0]["message"]["content"] == '{"title":"A plain title"}'


def test_behind_a_gateway_thinking_is_signed_and_bound(client, provider):
    request = {**START, "model": CLAUDE, "reasoning_effort": "high"}
    first = client.post(PATH, json=request).json()
    message = first["choices"][0]["message"]
    assert message["reasoning_content"] == message["thinking_blocks"][0]["thinking"] == "look first"
    assert "cache_read_input_tokens" in first["usage"]
    messages = [*START["messages"], message, tool(message["tool_calls"][0]["id"])]
    assert client.post(PATH, json={**request, "messages": messages}).status_code == 200
    edited = [system("other"), *messages[1:]]
    answer = client.post(PATH, json={**request, "messages": edited})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "400")
    assert provider.refusals[0].rule == "signed_thinking"
    stripped = [system("other"), messages[1], assistant(message["content"], *message["tool_calls"]), messages[-1]]
    assert client.post(PATH, json={**request, "messages": stripped}).status_code == 200


def test_an_answer_is_held_after_its_first_chunk(client, provider):
    with provider.hold(where="stream") as hold:
        hold.release()
        assert client.post(PATH, json={**START, "stream": True}).status_code == 200
    assert hold.reached.is_set()
