"""The main job on the two OpenAI wires, with real parts: mitmdump over HTTPS, the strict provider, the MCP server."""

import ssl
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest
from pages import model, prose, tool
from process import call, reader, running_proxy

from fixtures.agents.chat import ChatAgent
from fixtures.agents.responses import ResponsesAgent
from fixtures.provider.exchange import Exchange
from fixtures.provider.server import Provider, serve

THRESHOLD = 16_000
TURNS = 3

WIRES: dict[str, tuple[type[ChatAgent] | type[ResponsesAgent], str, str]] = {
    "chat": (ChatAgent, "gpt-5.6-sol", "messages"),
    "chat-of-a-gateway": (ChatAgent, "anthropic/claude-opus-5-5", "messages"),
    "responses": (ResponsesAgent, "gpt-5.5", "input"),
    "responses-of-a-gateway": (ResponsesAgent, "anthropic/claude-opus-5-5", "input"),
}


class Run:
    """What one whole session left behind."""

    def __init__(self, name: str, folder: Path) -> None:
        kind, model_name, self.key = WIRES[name]
        self.state = folder / "state"
        self.session = f"session-{name}"
        provider = Provider({f"turn{turn}": model for turn in range(TURNS)})
        settings = {"CONTEXT_TRIM_TOKENS": str(THRESHOLD)}
        with serve(provider) as running, running_proxy(folder, running.port, **settings) as proxy:
            trust = ssl.create_default_context(cafile=str(proxy.certificate))
            with httpx.Client(proxy=httpx.Proxy(proxy.url), verify=trust, timeout=60, trust_env=False) as client:
                self.agent = kind(client, tool, session=self.session, model=model_name, thinking=True)
                for turn in range(TURNS):
                    self.agent.ask(f"SCENARIO:turn{turn} Please read the pages of part {turn}. {prose(turn, 36)}")
        self.exchanges = list(provider.exchanges)
        self.log = proxy.log.read_text()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        path = self.state / "context" / "sessions" / f"{self.session}.db"
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(connection.execute(statement))
        finally:
            connection.close()

    def trimmed(self) -> list[int]:
        return [value for (value,) in self.rows("SELECT trimmed FROM events WHERE kind = 'usage' ORDER BY id")]


@pytest.fixture(scope="module", params=WIRES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(request.param, tmp_path_factory.mktemp("session"))


def prompt(exchange: Exchange) -> int:
    return exchange.usage.get("prompt_tokens", exchange.usage.get("input_tokens", 0))


def test_a_long_session_is_never_refused_and_trims(run: Run):
    assert [exchange.error for exchange in run.exchanges if exchange.status != 200] == []
    assert len(run.exchanges) >= 60
    assert run.trimmed().count(2) >= 2
    assert "fail-open" not in run.log
    assert run.rows("SELECT count(*) FROM events WHERE kind IN ('fail_open', 'heal')") == [(0,)]


def test_every_call_is_recorded_with_its_usage(run: Run):
    stored = run.rows(
        "SELECT input_tokens + ifnull(cache_read_tokens, 0) + ifnull(cache_creation_tokens, 0), output_tokens"
        " FROM events WHERE kind = 'usage' ORDER BY id"
    )
    reported = [
        (prompt(exchange), exchange.usage.get("completion_tokens", exchange.usage.get("output_tokens")))
        for exchange in run.exchanges
    ]
    assert stored == reported
    assert run.rows("SELECT DISTINCT breakpoints FROM events WHERE kind = 'usage'") == [(None,)]


def test_consecutive_bodies_extend_each_other_except_where_a_trim_is_recorded(run: Run):
    flags = run.trimmed()
    for number in range(1, len(run.exchanges)):
        before, after = run.exchanges[number - 1].body[run.key], run.exchanges[number].body[run.key]
        assert (after[: len(before)] == before) == (flags[number] != 2), f"request {number}"


def test_prompts_stay_under_the_threshold(run: Run):
    assert max(map(prompt, run.exchanges)) <= THRESHOLD * 1.02


async def test_the_reader_answers_from_rows_that_left_the_prompt(run: Run):
    assert "HL-7731" not in str(run.exchanges[-1].body)
    async with reader(run.state) as session:
        found = await call(session, "smart_compact_search", query="blue ledger number", session_id=run.session)
        assert "HL-7731" in found["results"][0]["excerpt"]
        assert not found["results"][0]["in_context"]
