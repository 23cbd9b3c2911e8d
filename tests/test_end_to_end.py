"""The main job, with real parts: an agent's session through mitmdump over HTTPS, stored, trimmed and searched."""

import ssl
from pathlib import Path

import apsw
import httpx
import pytest
from pages import model, prose, tool
from process import call, reader, running_proxy

from fixtures.agent import Agent
from fixtures.provider import cache, canonical
from fixtures.provider.exchange import Exchange
from fixtures.provider.server import Provider, serve

SESSION = "5f0c1d7e-0000-4000-8000-00000000e2e0"
THRESHOLD = 24_000
TURNS = 6


class Run:
    """What one whole session left behind."""

    def __init__(self, folder: Path, exchanges: list[Exchange], agent: Agent, log: str) -> None:
        self.state = folder / "state"
        self.exchanges = exchanges
        self.agent = agent
        self.log = log
        self.database = self.state / "context" / "sessions" / f"{SESSION}.db"

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        connection = apsw.Connection(str(self.database), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(connection.execute(statement))
        finally:
            connection.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("session")
    provider = Provider({f"turn{turn}": model for turn in range(TURNS)})
    settings = {"CONTEXT_TRIM_TOKENS": str(THRESHOLD)}
    with serve(provider) as running, running_proxy(folder, running.port, **settings) as proxy:
        trust = ssl.create_default_context(cafile=str(proxy.certificate))
        client = httpx.Client(proxy=httpx.Proxy(proxy.url), verify=trust, timeout=60, trust_env=False)
        agent = Agent(client, tool, session=SESSION, thinking={"type": "adaptive"})
        for turn in range(TURNS):
            agent.ask(f"SCENARIO:turn{turn} Please read the pages of part {turn}. {prose(turn, 36)}")
            if turn == TURNS // 2:
                client.close()
                proxy.restart()
                client = httpx.Client(proxy=httpx.Proxy(proxy.url), verify=trust, timeout=60, trust_env=False)
                agent.client = client
        client.close()
    return Run(folder, list(provider.exchanges), agent, proxy.log.read_text())


def prompt(exchange: Exchange) -> int:
    usage = exchange.usage
    return usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"]


def view(exchange: Exchange) -> list[object]:
    """Return what the provider saw, in the equality under which a cached prefix is one."""
    messages = [canonical.message(message, thinking=True) for message in exchange.body["messages"]]
    return [canonical.without_markers(exchange.body["system"]), canonical.offered(exchange.body), *messages]


def trimmed(run: Run) -> list[int]:
    """Return the `trimmed` column of each request in order."""
    return [int(str(value)) for (value,) in run.rows("SELECT trimmed FROM events WHERE kind = 'usage' ORDER BY id")]


def test_a_long_session_is_never_refused_and_trims_several_times(run: Run):
    assert [exchange.error for exchange in run.exchanges if exchange.status != 200] == []
    assert len(run.exchanges) >= 60
    assert trimmed(run).count(2) >= 3
    assert run.rows("SELECT count(*) FROM events WHERE kind = 'fail_open'") == [(0,)]
    assert "fail-open" not in run.log


def test_every_usage_is_recorded_as_the_provider_reported_it(run: Run):
    reported = [
        (
            exchange.usage["input_tokens"],
            exchange.usage["cache_read_input_tokens"],
            exchange.usage["cache_creation_input_tokens"],
            exchange.usage["output_tokens"],
        )
        for exchange in run.exchanges
    ]
    stored = run.rows(
        "SELECT input_tokens, cache_read_tokens, cache_creation_tokens, output_tokens"
        " FROM events WHERE kind = 'usage' ORDER BY id"
    )
    assert stored == reported
    marks = run.rows("SELECT DISTINCT breakpoints, breakpoint_at FROM events WHERE kind = 'usage'")
    assert marks == [(2, "system,m-1")]


def test_consecutive_bodies_extend_each_other_except_where_a_trim_is_recorded(run: Run):
    flags = trimmed(run)
    for number in range(1, len(run.exchanges)):
        before, after = view(run.exchanges[number - 1]), view(run.exchanges[number])
        extends = after[: len(before)] == before
        assert extends == (flags[number] != 2), f"request {number} of {len(flags)}"


def test_the_first_user_turn_stays_and_the_pointer_names_the_session(run: Run):
    first = run.agent.messages[0]["content"]
    for exchange, flag in zip(run.exchanges, trimmed(run), strict=True):
        opening = exchange.body["messages"][0]["content"]
        texts = [opening] if isinstance(opening, str) else [block["text"] for block in opening]
        assert first in texts
        pointers = str(exchange.body["messages"]).count(f"[openmem: continuing session {SESSION};")
        assert pointers == (1 if flag else 0)


def test_prompts_stay_under_the_threshold(run: Run):
    """The new part of each request is under a tenth of the prompt and the same kind of text."""
    assert max(prompt(exchange) for exchange in run.exchanges) <= THRESHOLD * 1.01


def test_a_trim_fires_on_an_estimate_within_a_hundredth_of_the_providers_own_count(run: Run):
    """What the request would have weighed untrimmed: the body before it, and the two messages since."""
    estimates = [int(str(before)) for (before,) in run.rows("SELECT tokens_before FROM events WHERE kind = 'trim'")]
    counted = []
    for number, flag in enumerate(trimmed(run)):
        if flag == 2:
            earlier = run.exchanges[number - 1].body
            since = run.agent.messages[2 * number - 1 : 2 * number + 1]
            body = {**earlier, "messages": [*earlier["messages"], *since]}
            counted.append(sum(unit.tokens for unit in cache.prompt(body)))
    assert len(counted) >= 3
    for estimate, tokens in zip(estimates, counted, strict=True):
        assert abs(estimate - tokens) <= 0.01 * tokens
        assert tokens >= 0.99 * THRESHOLD


def test_the_cache_keeps_hitting_between_trims(run: Run):
    read = total = 0
    for exchange, flag in list(zip(run.exchanges, trimmed(run), strict=True))[1:]:
        if flag != 2:
            read += exchange.usage["cache_read_input_tokens"]
            total += prompt(exchange)
    assert read / total >= 0.95


def test_every_message_of_the_last_request_is_stored_once(run: Run):
    sent = run.agent.messages[:-1]  # the last reply appears with the next request
    texts = [str(text) for (text,) in run.rows("SELECT text FROM messages ORDER BY seq")]
    expected: list[str] = []
    for message in sent:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "text":
                    expected.append(block["text"])
                case "thinking":
                    expected += [block["thinking"]] if block["thinking"].strip() else []
                case "tool_use":
                    expected.append('{"cmd":"' + block["input"]["cmd"] + '"}')
                case "tool_result":
                    expected.append(block["content"])
    assert texts == expected


async def test_the_reader_answers_from_rows_that_left_the_prompt(run: Run):
    assert "HL-7731" not in str(run.exchanges[-1].body)
    async with reader(run.state) as session:
        found = await call(session, "smart_compact_search", query="blue ledger number", session_id=SESSION)
        hit = found["results"][0]
        assert "HL-7731" in hit["excerpt"]
        assert not hit["in_context"]
        counted = await call(
            session, "smart_compact_sql", session_id=SESSION, sql="SELECT sum(in_context = 0) AS n FROM messages"
        )
        assert counted["rows"] == [[run.rows("SELECT sum(in_context = 0) FROM messages")[0][0]]]
