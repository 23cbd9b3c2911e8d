"""Refusals with real parts: an agent's session through mitmdump on the strict provider, which never shows it one."""

import json
import signal
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import apsw
import httpx
import pages
import pytest
from process import Proxy, running_proxy

from fixtures.agent import Agent, Json
from fixtures.provider.behaviour import Behaviour
from fixtures.provider.binding import BETA
from fixtures.provider.exchange import Exchange
from fixtures.provider.scenario import Asked, Step
from fixtures.provider.server import Provider, Running, serve
from fixtures.provider.wire import THINKING

SESSION = "5f0c1d7e-0000-4000-8000-00000000ea11"
TURNS = 6
STEPS = 8
WINDOW = 6_000


def model(asked: Asked) -> Step:
    """Read a few pages, then answer."""
    return pages.model(asked) if asked.index < STEPS else Step(thinking="That was all.", text=f"Finished {asked.name}.")


CLAUDE = {"user-agent": "claude-cli/2.1.332 (external, cli)"}
SCRIPT = {"user-agent": "a-script/1"}


class AskingAgain(httpx.BaseTransport):
    """Asks again after a 503 that says so, as the measured clients do."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self.inner = inner
        self.pleas: list[httpx.Headers] = []
        """Headers of the answers that asked for it."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        while True:
            response = self.inner.handle_request(request)
            if response.status_code != 503 or response.headers.get("x-should-retry") != "true":
                return response
            response.read()
            response.close()
            self.pleas.append(response.headers)


class PastUs(httpx.BaseTransport):
    """Goes straight to the provider; what that refuses, it sends again without reasoning, as Claude Code does."""

    def __init__(self, running: Running) -> None:
        self._inner = httpx.HTTPTransport()
        self._port = running.port

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.read())
        response = self._inner.handle_request(self._to_provider(request, body))
        if response.status_code != 400:
            return response
        response.read()
        for message in body["messages"]:
            if message["role"] == "assistant":
                message["content"] = [block for block in message["content"] if block["type"] not in THINKING]
        return self._inner.handle_request(self._to_provider(request, body))

    def _to_provider(self, request: httpx.Request, body: Json) -> httpx.Request:
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        return httpx.Request("POST", f"http://127.0.0.1:{self._port}/v1/messages", headers=headers, json=body)


class Line:
    """The whole line of one session, and what may happen to it."""

    def __init__(
        self, folder: Path, provider: Provider, running: Running, proxy: Proxy, headers: dict[str, str]
    ) -> None:
        self.provider = provider
        self.proxy = proxy
        self._running = running
        self._sessions = folder / "state" / "context" / "sessions"
        self.asking = AskingAgain(self._through())
        self.agent = Agent(
            httpx.Client(transport=self.asking, timeout=60),
            pages.tool,
            session=SESSION,
            thinking={"type": "adaptive"},
            headers=headers,
        )

    def _through(self) -> httpx.HTTPTransport:
        trust = ssl.create_default_context(cafile=str(self.proxy.certificate))
        return httpx.HTTPTransport(proxy=httpx.Proxy(self.proxy.url), verify=trust)

    def ask(self, turn: int) -> None:
        """Let the agent do one turn's work."""
        self.agent.ask(f"SCENARIO:turn{turn} Please read the pages of part {turn}. {pages.prose(turn, 36)}")

    @contextmanager
    def past_us(self) -> Iterator[None]:
        """Let the agent call the provider itself meanwhile."""
        ours, self.agent.client = self.agent.client, httpx.Client(transport=PastUs(self._running), timeout=60)
        try:
            yield
        finally:
            self.agent.client.close()
            self.agent.client = ours

    def restart(self, sign: signal.Signals = signal.SIGTERM, *, lost: bool = False) -> None:
        """End the proxy and start it again on its port, `lost` without the session's state."""
        self.proxy.stop(sign)
        if lost:
            (self._sessions / f"{SESSION}.trim.json").unlink()
        self.proxy.start()
        self.asking.inner = self._through()

    def end(self) -> None:
        """End the proxy, which writes what it has not yet."""
        self.agent.client.close()
        self.proxy.stop()

    def select(self, statement: str) -> list[tuple[object, ...]]:
        with apsw.Connection(str(self._sessions / f"{SESSION}.db"), flags=apsw.SQLITE_OPEN_READONLY) as connection:
            return list(connection.execute(statement))

    def refusals(self, begin: int = 0) -> list[str | None]:
        """Return the rules that refused requests from the exchange `begin` on."""
        return [exchange.rule for exchange in self.provider.exchanges[begin:] if exchange.rule]


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Callable[..., Line]]:
    """Return a function that opens a line; it is closed at the end."""
    with ExitStack() as stack:

        def open_line(behaviour: Behaviour, headers: dict[str, str], **settings: str) -> Line:
            provider = Provider({f"turn{turn}": model for turn in range(TURNS)}, behaviour=behaviour)
            running = stack.enter_context(serve(provider))
            proxy = stack.enter_context(running_proxy(tmp_path, running.port, **settings))
            return Line(tmp_path, provider, running, proxy, headers)

        yield open_line


CLIENTS = {"a client that asks again": CLAUDE, "a client that does not": SCRIPT}


@pytest.mark.parametrize("headers", CLIENTS.values(), ids=CLIENTS)
def test_an_agent_whose_proxy_forgot_it_finishes_without_a_word(
    line: Callable[..., Line], headers: dict[str, str]
) -> None:
    """It called the provider itself for one turn, then the session's state was lost, then the proxy was killed."""
    run = line(Behaviour(), headers, CONTEXT_TRIM_TOKENS="1000000")
    run.ask(0)
    with run.past_us():
        run.ask(1)
    begin = len(run.provider.exchanges)
    run.ask(2)
    assert run.refusals(begin) == []  # what was answered elsewhere is known by where it stands

    run.restart(lost=True)
    begin = len(run.provider.exchanges)
    run.ask(3)
    assert set(run.refusals(begin)) == {"thinking_binding"}
    assert len(run.refusals(begin)) == 1

    run.restart(signal.SIGKILL)
    begin = len(run.provider.exchanges)
    run.ask(4)
    assert run.refusals(begin) == []
    run.end()
    assert run.select("SELECT location, error FROM events WHERE kind = 'heal'") == [("valve", "binding")]
    assert run.select("SELECT count(*) FROM events WHERE kind = 'fail_open'") == [(0,)]
    assert len(run.asking.pleas) == (1 if headers is CLAUDE else 0)
    log = run.proxy.log.read_text()
    assert log.count(f"session {SESSION}: healed a refusal (binding) by valve") == 1
    assert "fail-open" not in log
    assert "Reading page" not in log


@pytest.mark.parametrize("headers", CLIENTS.values(), ids=CLIENTS)
def test_a_prompt_over_the_providers_window_is_trimmed_and_the_agent_finishes(
    line: Callable[..., Line], headers: dict[str, str]
) -> None:
    run = line(Behaviour(context_tokens=WINDOW), headers, CONTEXT_TRIM_TOKENS="1000000")
    for turn in range(3):
        run.ask(turn)
    run.end()
    assert set(run.refusals()) == {"prompt_length"}
    healed = run.select("SELECT location, error FROM events WHERE kind = 'heal'")
    assert set(healed) == {("trim", "long")}
    assert len(healed) == len(run.refusals()) >= 2
    assert run.select("SELECT count(*) FROM events WHERE kind = 'trim'") == [(len(healed),)]
    usages = run.select("SELECT input_tokens, output_tokens FROM events WHERE kind = 'usage'")
    answered = [exchange for exchange in run.provider.exchanges if exchange.status == 200]
    assert usages == [(one.usage["input_tokens"], one.usage["output_tokens"]) for one in answered]


def test_the_valve_is_sent_with_its_header_and_only_after_a_refusal(line: Callable[..., Line]) -> None:
    run = line(Behaviour(), SCRIPT, CONTEXT_TRIM_TOKENS="1000000")
    run.ask(0)
    run.restart(lost=True)
    run.ask(1)
    sent = [(valved(one), one.header("anthropic-beta")) for one in run.provider.exchanges]
    opened = next(at for at, one in enumerate(run.provider.exchanges) if one.rule) + 1
    assert set(sent[:opened]) == {(False, None)}
    assert set(sent[opened:]) == {(True, BETA)}


def test_on_an_account_without_the_check_nothing_is_refused_and_nothing_dropped(line: Callable[..., Line]) -> None:
    run = line(Behaviour(account="older"), SCRIPT, CONTEXT_TRIM_TOKENS="1000000")
    run.ask(0)
    run.restart(lost=True)
    run.ask(1)
    assert run.refusals() == []
    assert not any(valved(one) or one.transformations for one in run.provider.exchanges)


def valved(exchange: Exchange) -> bool:
    return "block_binding" in exchange.body["thinking"]
