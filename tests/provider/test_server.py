"""The provider over HTTP and HTTPS, in this process and as one of its own."""

import gzip
import json
import signal
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from fixtures.provider import certificate
from fixtures.provider.scenario import Call, Failure, Step
from fixtures.provider.server import Behaviour, Provider, serve
from tests.provider.bodies import CONTROLS, HEADERS, answered, body, changed, result, text, user

ROOT = Path(__file__).parents[2]
SCRIPTS = {
    "build": (
        Step(thinking="look first", text="Reading.", tools=(Call("Read", {"path": "a.txt"}),)),
        Step(text="Done."),
    ),
    "shaky": (Step(error=Failure(times=2), text="At last."),),
    "cut": (Step(text="words " * 200, cut_after=4),),
    "breaks": (Step(error=Failure(after=4, message="Too busy"), text="words " * 200),),
}
START = body(user("Work. SCENARIO:build"), system=[text("word " * 1_500, cache_control={"type": "ephemeral"})])


@pytest.fixture
def provider():
    return Provider(SCRIPTS, now=lambda: 0.0)


@pytest.fixture
def client(provider):
    with serve(provider) as running, httpx.Client(base_url=running.url, trust_env=False) as opened:
        opened.headers.update(HEADERS)
        yield opened


def events(response):
    """Return the data of a stream's events."""
    lines = response.text.splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_a_script_runs_through_tool_calls_with_its_cache(client, provider):
    first = client.post("/v1/messages", json=START).json()
    call = first["content"][-1]
    grown = changed(
        START,
        messages=[
            *START["messages"],
            {"role": "assistant", "content": first["content"]},
            user(result(call["id"])),
        ],
    )
    second = client.post("/v1/messages?beta=true", json=grown).json()
    assert [first["stop_reason"], second["stop_reason"]] == ["tool_use", "end_turn"]
    assert second["usage"]["cache_read_input_tokens"] == first["usage"]["cache_creation_input_tokens"] > 1_500
    assert [(seen.scenario, seen.step, seen.status) for seen in provider.exchanges] == [
        ("build", 0, 200),
        ("build", 1, 200),
    ]


def test_a_stream_says_what_a_plain_answer_says(client):
    streamed = client.post("/v1/messages", json={**START, "stream": True})
    assert streamed.headers["content-type"] == "text/event-stream; charset=utf-8"
    seen = events(streamed)
    assert [seen[0]["type"], seen[-1]["type"]] == ["message_start", "message_stop"]
    plain = client.post("/v1/messages", json=START).json()
    assert seen[-2]["usage"]["output_tokens"] == plain["usage"]["output_tokens"]


def test_a_refusal_has_the_providers_shape_and_is_recorded(client, provider):
    answer = client.post("/v1/messages", json=body(user("")))
    assert answer.status_code == 400
    assert answer.json() == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.0: all messages must have non-empty content except for the optional final "
            "assistant message",
        },
        "request_id": answer.headers["request-id"],
    }
    assert [seen.rule for seen in provider.refusals] == ["empty_content"]


def test_a_missing_key_is_its_own_kind_of_error(client):
    del client.headers["x-api-key"]
    answer = client.post("/v1/messages", json=START)
    assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")


def test_keys_are_not_recorded(client, provider):
    client.post("/v1/messages", json=START, headers={"authorization": "Bearer very-secret"})
    assert "very-secret" not in repr(provider.exchanges)


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/models"), ("POST", "/api/any?x=1"), ("HEAD", "/")])
def test_any_other_path_is_not_found_and_recorded(client, provider, method, path):
    assert client.request(method, path).status_code == 404
    assert [(seen.method, seen.path) for seen in provider.exchanges] == [(method, path)]


def test_a_body_that_is_no_json_is_refused(client):
    answer = client.post("/v1/messages", content=b"{")
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


def test_counting_gives_the_prompt_and_runs_the_same_checks(client):
    counted = client.post("/v1/messages/count_tokens", json=changed(START, max_tokens=None)).json()
    usage = client.post("/v1/messages", json=START).json()["usage"]
    assert counted == {
        "input_tokens": sum(
            usage[name] for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        )
    }
    edited = changed(answered(body(user("go"))), system="changed", max_tokens=None)
    assert client.post("/v1/messages/count_tokens", json=edited).status_code == 400


def test_dropped_thinking_is_reported_at_the_start_of_the_stream(client, provider):
    valve = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    edited = changed(answered(body(user("go"))), system="changed", thinking=valve, stream=True)
    seen = events(client.post("/v1/messages", json=edited, headers=CONTROLS))
    entry = {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
    assert seen[0]["message"]["input_transformations"] == [entry]
    assert provider.exchanges[0].transformations == [entry]


def test_a_scripted_error_stops_after_its_times(client):
    request = body(user("SCENARIO:shaky"))
    assert [client.post("/v1/messages", json=request).status_code for _ in range(3)] == [529, 529, 200]


def test_a_scripted_cut_breaks_the_stream(client):
    with pytest.raises(httpx.RemoteProtocolError):
        client.post("/v1/messages", json=body(user("SCENARIO:cut"), stream=True))


def test_a_scripted_error_may_come_inside_the_stream(client, provider):
    seen = events(client.post("/v1/messages", json=body(user("SCENARIO:breaks"), stream=True)))
    assert len(seen) == 5
    assert seen[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "Too busy"}}
    assert (provider.exchanges[0].status, provider.exchanges[0].error) == (200, "Too busy")
    assert client.post("/v1/messages", json=body(user("SCENARIO:breaks"))).status_code == 200


def test_without_a_stream_the_same_error_is_a_status(client):
    answer = client.post("/v1/messages", json=body(user("SCENARIO:breaks")))
    assert (answer.status_code, answer.json()["error"]["message"]) == (529, "Too busy")


def test_a_compressed_body_is_read_and_one_that_only_says_so_is_refused(client, provider):
    plain = json.dumps(START).encode()
    gzipped = {"content-encoding": "gzip"}
    assert client.post("/v1/messages", content=gzip.compress(plain), headers=gzipped).status_code == 200
    assert provider.exchanges[0].body == START
    assert client.post("/v1/messages", content=plain, headers=gzipped).status_code == 400


@pytest.mark.parametrize("content", [b'{"a": NaN}', b"[" * 5_000, b'{"a":' * 600 + b"1" + b"}" * 600, b"\xff{}", b""])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses"])
def test_what_cannot_be_read_is_refused_on_every_wire(client, path, content):
    answer = client.post(path, content=content, headers={"authorization": "Bearer invented"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses"])
def test_odd_numbers_and_lone_surrogates_are_answered_on_every_wire(tmp_path, path):
    odd = f'"seed": {"1" * 5_000}, "tools": [{{"type": "function", "name": "a", "function": {{"name": "a"}}}}]'
    said = '[{"role": "user", "content": "a\\ud83d lone one"}]'
    content = f'{{"model": "m\\udc97", "max_tokens": 9, {odd}, "messages": {said}, "input": {said}}}'.encode()
    headers = {**HEADERS, "authorization": "Bearer invented"}
    with serve(Provider(log=tmp_path / "log.jsonl")) as running:
        plain = httpx.post(f"{running.url}{path}", content=content, headers=headers, trust_env=False)
        streamed = content.replace(b'"max_tokens"', b'"stream": true, "max_tokens"')
        events = httpx.post(f"{running.url}{path}", content=streamed, headers=headers, trust_env=False)
    assert (plain.status_code, plain.json()["model"]) == (200, "m\udc97")
    assert "m\\udc97" in events.text
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2


def test_any_prefix_serves(client):
    assert client.post("/api/v1/messages", json=START).status_code == 200


def test_an_unknown_script_is_named(client):
    answer = client.post("/v1/messages", json=body(user("SCENARIO:nowhere")))
    assert "nowhere" in answer.json()["error"]["message"]


def test_the_context_window_is_a_setting():
    provider = Provider(behaviour=Behaviour(context_tokens=100))
    with serve(provider) as running:
        request = body(user("word " * 200))
        answer = httpx.post(f"{running.url}/v1/messages", json=request, headers=HEADERS, trust_env=False)
    assert answer.json()["error"]["message"].startswith("prompt is too long: ")


@pytest.mark.parametrize("where", ["answer", "stream"])
def test_an_answer_is_held_until_it_is_released(client, provider, where):
    finished = threading.Event()
    answers = []

    def ask():
        answers.append(client.post("/v1/messages", json={**START, "stream": True}).status_code)
        finished.set()

    with provider.hold(lambda sent: sent["messages"] == START["messages"], where=where) as hold:
        asking = threading.Thread(target=ask)
        asking.start()
        assert hold.reached.wait(10)
        assert not finished.is_set()
        hold.release()
        asking.join(10)
    assert answers == [200]


def test_https_with_a_certificate(tmp_path, provider):
    files = certificate.make(tmp_path, ["localhost"])
    trust = ssl.create_default_context(cafile=files.ca)
    with serve(provider, cert=files.cert, key=files.key) as running:
        url = f"https://localhost:{running.port}/v1/messages"
        answer = httpx.post(url, json=START, headers=HEADERS, verify=trust, trust_env=False)
    assert (running.url, answer.status_code) == (f"https://127.0.0.1:{running.port}", 200)


def test_as_a_process_it_says_its_port_and_writes_its_log(tmp_path):
    scripts, log = tmp_path / "scripts.json", tmp_path / "log.jsonl"
    scripts.write_text('{"build": [{"text": "Done."}]}')
    command = [sys.executable, "-m", "fixtures.provider", "--scenarios", scripts, "--log", log]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = json.loads(process.stdout.readline())["port"]
            url = f"http://127.0.0.1:{port}/v1/messages"
            answer = httpx.post(url, json=START, headers=HEADERS, trust_env=False)
        finally:
            process.send_signal(signal.SIGTERM)
    assert answer.json()["content"] == [{"type": "text", "text": "Done."}]
    line = json.loads(log.read_text())
    assert (line["scenario"], line["status"], line["body"]) == ("build", 200, START)


@pytest.mark.parametrize("arguments", [["--cert", "a.pem"], ["--scenarios", "no-such-file.json"]])
def test_as_a_process_it_refuses_wrong_arguments(arguments):
    command = [sys.executable, "-m", "fixtures.provider", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert arguments[0] in done.stderr or arguments[1] in done.stderr
