"""The recorded exchanges: complete, neutral, and accepted by the strict provider."""

import json
import re

import pytest

from fixtures.provider import canonical, wire
from fixtures.provider.rules import table
from fixtures.recording import folders
from fixtures.recording.neutral import KEY, Neutral
from tests import exchanges
from tests.provider.bodies import judged

EVERY = exchanges.every()
FILES = [path for path in sorted(folders.ROOT.rglob("*")) if path.is_file()]
MOST_BYTES = 1_500_000

MACHINE = {
    "a home or a system path": re.compile(r"(?<![\w.])/(?:root|work|tmp|usr|opt|var|mnt|Users)/|/home/(?!user\b)"),
    "a real uuid": re.compile(
        r"\b(?!00000000-0000-4000-8000-)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    ),
    "a device id": re.compile(r"\b(?!0{40})[0-9a-f]{64}\b"),
    "an agent id": re.compile(r"\ba(?!0{8})[0-9a-f]{16}\b"),
    "a key": re.compile(r"sk-ant-|Bearer "),
    "a registry": re.compile(r"pypi\.org|npmjs"),
}


@pytest.mark.parametrize("exchange", EVERY, ids=lambda exchange: exchange.name)
def test_a_folder_is_complete(exchange):
    found = {path.name for path in (folders.ROOT / exchange.name).iterdir()}
    answer = "response.sse" if exchange.streamed else "response.json"
    assert found == {"request.json", "request.headers.json", "response.headers.json", answer}


@pytest.mark.parametrize("exchange", EVERY, ids=lambda exchange: exchange.name)
def test_a_request_holds_no_text_that_would_be_replaced(exchange):
    ours = json.loads((folders.ROOT / "ours.json").read_text())
    neutral = Neutral({}, ours)
    assert neutral.body(exchange.body) == exchange.body
    assert exchanges.headers(exchange)["x-api-key"] == KEY


@pytest.mark.parametrize("kind", MACHINE)
def test_no_file_holds(kind):
    found = {path.name: MACHINE[kind].findall(path.read_text()) for path in FILES}
    assert {name: hits for name, hits in found.items() if hits} == {}


@pytest.mark.parametrize("exchange", EVERY, ids=lambda exchange: exchange.name)
def test_the_provider_accepts_a_request_with_its_prefix_check_on(exchange):
    counting = "/count_tokens" in exchange.path
    assert table.refuse(judged(exchange.body, exchanges.headers(exchange), counting=counting)) is None


@pytest.mark.parametrize("exchange", EVERY, ids=lambda exchange: exchange.name)
def test_the_recorded_counts_are_those_of_the_neutral_prompt(exchange):
    answer = exchange.answer.decode()
    if exchange.streamed:
        first = next(line for line in answer.splitlines() if line.startswith("data: "))
        usage = json.loads(first.removeprefix("data: "))["message"]["usage"]
    else:
        usage = json.loads(answer)
    parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    prompt = judged(exchange.body, exchanges.headers(exchange), counting=True).prompt_tokens
    assert sum(usage.get(part, 0) for part in parts) == prompt


@pytest.mark.parametrize("session", exchanges.SESSIONS)
def test_requests_of_one_lane_extend_each_other_until_the_client_compacts(session):
    last: dict[str | None, tuple[list[str], int]] = {}
    for exchange in exchanges.load(session):
        sent = exchanges.headers(exchange)
        if sent["x-claude-code-request-class"] not in ("main", "subagent"):
            continue
        prefixes = canonical.prefixes(exchange.body)
        lane = sent.get("x-claude-code-agent-id")
        if lane in last and "x-claude-code-context-compacted" not in sent:
            earlier, count = last[lane]
            assert prefixes[: count + 1] == earlier
        last[lane] = (prefixes, len(wire.messages(exchange.body)))


def test_every_part_is_used_and_everything_stays_small():
    used = {
        name
        for path in FILES
        if path.suffix == ".json"
        for name in re.findall(r'"\$part": "([^"]+)"', path.read_text())
    }
    assert used == {path.name for path in (folders.ROOT / folders.PARTS).iterdir()}
    assert sum(path.stat().st_size for path in FILES) < MOST_BYTES


def test_the_sessions_cover_what_a_proxy_must_tell_apart():
    classes = {exchanges.headers(exchange)["x-claude-code-request-class"] for exchange in EVERY}
    assert classes == {"main", "subagent", "compaction", "auxiliary"}
    kinds = {
        block["type"]
        for exchange in EVERY
        for message in exchange.body["messages"]
        for block in wire.blocks(message["content"])
    }
    assert kinds == {"text", "thinking", "tool_use", "tool_result", "image"}
    references = [name for name in EVERY if '"tool_reference"' in json.dumps(name.body["messages"])]
    assert references
    assert any(wire.directive_only(message) for one in EVERY for message in one.body["messages"])


@pytest.mark.parametrize("exchange", EVERY[:3], ids=lambda exchange: exchange.name)
def test_a_flow_carries_the_exact_bytes(exchange):
    flow = exchanges.flow(exchange)
    assert flow.request.pretty_url == f"https://api.anthropic.com{exchange.path}"
    assert flow.request.raw_content == exchange.raw
    assert json.loads(flow.request.get_text()) == exchange.body
    assert list(json.loads(flow.request.get_text())) == list(exchange.body)
    assert flow.request.headers["X-Claude-Code-Session-Id"].startswith("00000000-")
    assert flow.response.raw_content == exchange.answer
    assert exchanges.flow(exchange, answered=False).response is None
