"""The responses wire over HTTP."""

import json

import httpx
import pytest

from fixtures.provider.scenario import Call, Failure, Step
from fixtures.provider.server import Provider, serve
from tests.provider.responses.bodies import CLAUDE, HEADERS, MODEL, OLDER, body, changed, grown, output, user

SCRIPTS = {
    "build": (
        Step(thinking="look first", text="Reading.", tools=(Call("Read", {"path": "a.txt"}),)),
        Step(thinking="all there", text="Done."),
        Step(text="Nothing more."),
    ),
    "breaks": (Step(error=Failure(after=3, status=429, message="Too busy"), text="x"),),
    "cut": (Step(text="words " * 200, cut_after=4),),
}
PATH = "/v1/responses"
START = body({"role": "developer", "content": "word " * 1_500}, user("Work. SCENARIO:build"))


@pytest.fixture
def provider():
    return Provider(SCRIPTS, now=lambda: 7.0)


@pytest.fixture
def client(provider):
    with serve(provider) as running, httpx.Client(base_url=running.url, trust_env=False) as opened:
        opened.headers.update(HEADERS)
        yield opened


def data(response):
    """Return the data of a stream's events, whose names agree with them."""
    found = []
    for block in response.text.strip().split("\n\n"):
        name, line = block.split("\n")
        found.append(json.loads(line.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_a_script_runs_through_tool_calls_with_its_cache(client, provider):
    first = client.post(PATH, json=START).json()
    call = first["output"][-1]
    second = client.post(PATH, json=grown(START, *first["output"], output(call["call_id"]))).json()
    assert [item["type"] for item in first["output"]] == ["reasoning", "message", "function_call"]
    assert second["output"][-1]["content"][0]["text"] == "Done."
    whole = first["usage"]["input_tokens"] // 128 * 128
    assert second["usage"]["input_tokens_details"]["cached_tokens"] == whole > 1_500
    assert second["usage"]["output_tokens_details"]["reasoning_tokens"] == 2
    assert (first["input_transformations"], second["input_transformations"]) == ([], [])
    assert [(seen.wire, seen.scenario, seen.step, seen.dropped) for seen in provider.exchanges] == [
        ("responses", "build", 0, []),
        ("responses", "build", 1, []),
    ]
    assert provider.exchanges[0].content == first["output"]


def test_a_stream_says_what_a_plain_answer_says(client):
    streamed = client.post(PATH, json={**START, "stream": True})
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = data(streamed)
    plain = client.post(PATH, json=START).json()
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"]["output"] == plain["output"]
    assert events[-1]["response"]["usage"]["output_tokens"] == plain["usage"]["output_tokens"]
    assert (plain["created_at"], plain["model"]) == (7, MODEL)


def test_a_stored_response_is_continued_by_its_id(client, provider):
    start = changed(START, store=None)
    first = client.post(PATH, json=start).json()
    delta = body(output(first["output"][-1]["call_id"]), previous_response_id=first["id"], store=True)
    second = client.post(PATH, json=delta).json()
    assert (provider.exchanges[-1].step, second["previous_response_id"]) == (1, first["id"])
    third = client.post(PATH, json=body(user("more"), previous_response_id=second["id"])).json()
    assert (provider.exchanges[-1].scenario, provider.exchanges[-1].step) == ("build", 2)
    assert third["usage"]["input_tokens"] > second["usage"]["input_tokens"] > 1_500
    lost = client.post(PATH, json=body(user("more"), previous_response_id=third["id"]))
    assert (lost.status_code, lost.json()["error"]["code"]) == (400, "previous_response_not_found")


@pytest.mark.parametrize("path", ["/v1/responses", "/backend-api/codex/responses", "/responses?x=1"])
def test_any_prefix_serves(client, path):
    assert client.post(path, json=START).status_code == 200


def test_a_refusal_has_openais_shape_and_is_recorded(client, provider):
    answer = client.post(PATH, json=body(output()))
    assert answer.status_code == 400
    assert answer.json() == {
        "error": {
            "message": "No tool call found for function call output with call_id call_1.",
            "type": "invalid_request_error",
            "param": "input",
            "code": None,
        }
    }
    assert answer.headers["x-request-id"].startswith("req_")
    assert [seen.rule for seen in provider.refusals] == ["output_unexpected"]


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/responses/resp_1"), ("POST", "/v1/responses/compact")])
def test_any_other_request_below_the_path_is_not_found_in_openais_shape(client, method, path):
    answer = client.request(method, path)
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == f"Invalid URL ({method} {path})"


def test_reasoning_after_a_changed_prefix_is_dropped_and_reported(client, provider):
    first = client.post(PATH, json=START).json()
    whole = grown(START, *first["output"], output(first["output"][-1]["call_id"]))
    edited = changed(whole, input=[{"role": "developer", "content": "other"}, *whole["input"][1:]])
    name = first["output"][0]["id"]
    events = data(client.post(PATH, json={**edited, "stream": True}))
    entry = {"type": "reasoning", "id": name, "action": "removed", "reason": "prefix_mismatch"}
    assert events[0]["response"]["input_transformations"] == [entry]
    assert (provider.exchanges[-1].dropped, provider.exchanges[-1].transformations) == ([name], [entry])
    older = client.post(PATH, json={**edited, "model": OLDER}).json()
    assert "input_transformations" not in older


def test_instructions_are_no_part_of_the_prefix_where_it_is_checked(client, provider):
    first = client.post(PATH, json={**START, "instructions": "one"}).json()
    whole = grown(START, *first["output"], output(first["output"][-1]["call_id"]))
    second = client.post(PATH, json={**whole, "instructions": "two " * 500}).json()
    assert provider.exchanges[-1].dropped == []
    assert second["usage"]["input_tokens_details"]["cached_tokens"] > 1_500


def test_a_trigger_compacts_and_the_script_goes_on(client, provider):
    first = client.post(PATH, json=START).json()
    whole = grown(START, *first["output"], output(first["output"][-1]["call_id"]))
    events = data(client.post(PATH, json={**grown(whole, {"type": "compaction_trigger"}), "stream": True}))
    [item] = events[-1]["response"]["output"]
    assert item["type"] == "compaction"
    after = client.post(PATH, json=body(item)).json()
    assert after["output"][-1]["content"][0]["text"] == "Done."
    assert (provider.exchanges[-1].scenario, provider.exchanges[-1].step) == ("build", 1)


def test_a_scripted_error_may_come_inside_the_stream(client):
    events = data(client.post(PATH, json=body(user("SCENARIO:breaks"), stream=True)))
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3]
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"] == {"code": "rate_limit_exceeded", "message": "Too busy"}


def test_a_scripted_cut_breaks_the_stream(client):
    with pytest.raises(httpx.RemoteProtocolError):
        client.post(PATH, json=body(user("SCENARIO:cut"), stream=True))


def test_a_request_for_json_gets_the_smallest_value_of_its_schema(client):
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    form = {"format": {"type": "json_schema", "name": "title", "schema": schema}}
    answer = client.post(PATH, json={**START, "text": form}).json()
    assert answer["output"][0]["content"][0]["text"] == '{"title":"A plain title"}'


def test_behind_a_gateway_thinking_is_packed_and_bound(client, provider):
    request = {**START, "model": CLAUDE, "reasoning": {"effort": "high"}}
    first = client.post(PATH, json=request).json()
    reasoning, message, call = first["output"]
    assert reasoning["summary"] == [{"type": "summary_text", "text": "look first"}]
    assert json.loads(reasoning["encrypted_content"])[0]["thinking"] == "look first"
    assert "cache_write_tokens" not in first["usage"]["input_tokens_details"]
    rest = [message, call, output(call["call_id"])]
    assert client.post(PATH, json=grown(request, reasoning, *rest)).status_code == 200
    other = {"role": "developer", "content": "other"}
    edited = changed(request, input=[other, request["input"][1], reasoning, *rest])
    answer = client.post(PATH, json=edited)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "400")
    assert provider.refusals[0].rule == "signed_thinking"
    stripped = changed(request, input=[other, request["input"][1], *rest])
    assert client.post(PATH, json=stripped).status_code == 200
