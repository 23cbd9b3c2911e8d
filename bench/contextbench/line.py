"""Own the line that a run goes through: client, the real proxy, the fake provider, and the real search server.

The client resends its whole history with each request, as agents do. What the scripted agent decides is
the provider's answer, made from the request that the proxy forwarded.
"""

import asyncio
import contextlib
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import apsw
import httpx
import msgspec
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from openmem_addon.commands import checkout, mitm, probe
from openmem_addon.commands.supervisor import Plan, Supervisor, python_command
from openmem_store import version
from openmem_store.layout import Layout

from bench.contextbench import agent
from bench.contextbench.cost import WINDOW, Meter, Totals
from bench.contextbench.sight import look
from bench.contextbench.stream import Score, Stream, grade, words
from fixtures.agent import Agent, RefusedError
from fixtures.provider.scenario import Asked, Failure, Step
from fixtures.provider.server import Provider, serve

SESSION = "contextbench"
SCENARIO = "contextbench"
SYSTEM_CHARACTERS = 24_000
"""With the tools about the 13,000 tokens that a real client sends before its first message."""

type Json = dict[str, Any]


class Arm(msgspec.Struct, frozen=True):
    """How the agent's prompts are kept."""

    settings: Mapping[str, str]
    tools: bool
    """Whether the agent has the search tools."""


ARMS: Mapping[str, Arm] = {
    "keep": Arm({"CONTEXT_MODE": "observe"}, tools=True),
    "trim, no tools": Arm({"CONTEXT_REQUIRE_TOOLS": "0"}, tools=False),
    "trim": Arm({}, tools=True),
}


class Counts(msgspec.Struct, frozen=True):
    """The counts that came from a tool, by what became of them."""

    right: int = 0
    warned: int = 0
    """Wrong, but the tool's answer showed that it counts other text too."""
    silent: int = 0
    """Wrong, and nothing said so."""


class Outcome(msgspec.Struct, frozen=True):
    """One run."""

    stream: str
    arm: str
    score: Score
    totals: Totals
    counts: dict[str, Counts]
    """By skill."""
    trims: int
    calls: int
    asked: int
    """Questions for which a tool was used."""
    overflow: bool
    """The prompt outgrew the window, so the run ended."""
    refusals: tuple[str, ...]
    """What the provider refused besides."""
    fail_opens: int


class Mind:
    """The scripted model: counts and answers each forwarded request."""

    def __init__(self, stream: Stream, skills: Sequence[str]) -> None:
        self.meter = Meter(stream.characters_per_token)
        self.counted: list[agent.Counted] = []
        self.overflow = False
        self._skills = skills

    def __call__(self, asked: Asked) -> Step:
        prompt = self.meter.prompt(asked.body)
        if prompt > WINDOW:
            self.overflow = True
            message = f"prompt is too long: {prompt} tokens > {WINDOW} maximum"
            return Step(error=Failure(status=400, type="invalid_request_error", message=message, times=sys.maxsize))
        decision = agent.decide(look(asked.body), self._skills)
        if decision.counted is not None:
            self.counted.append(decision.counted)
        said = (decision.step.text or "") + "".join(json.dumps(call.input) for call in decision.step.tools)
        bill = self.meter.charge(asked.body, said)
        return msgspec.structs.replace(decision.step, usage=bill.usage())


class Client(Agent):
    """The client: a system text and tools of a usual size before the conversation."""

    def __init__(self, *given: Any, tools: list[Json], system: int, **more: Any) -> None:
        """`tools` as the server defines them; `system`: characters of the system text."""
        super().__init__(*given, **more)
        self._tools = tools
        text = "You are an agent in an invented project.\n" + _prose(system)
        self._system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]

    def body(self) -> Json:
        return {**super().body(), "system": self._system, "tools": self._tools}


def run(
    stream: Stream,
    arm_name: str,
    skills: Sequence[str],
    folder: Path,
    *,
    settings: Mapping[str, str] = MappingProxyType({}),
    system: int = SYSTEM_CHARACTERS,
) -> Outcome:
    """Play a stream once; what it stores goes below `folder`.

    `settings` are more environment variables, `system` the characters of the system text.
    """
    arm = ARMS[arm_name]
    mind = Mind(stream, skills)
    provider = Provider({SCENARIO: mind})
    environ = environment(folder, {**arm.settings, **settings})
    with serve(provider) as running, proxy(folder, running.port, environ) as url:
        replies, calls = asyncio.run(_play(stream, url, provider, environ, tools=arm.tools, system=system))
    return Outcome(
        stream=stream.name,
        arm=arm_name,
        score=grade(stream.questions, [reply for reply, _ in replies]),
        totals=mind.meter.totals(),
        counts=judged(mind.counted, {question.name: question.gold for question in stream.questions}),
        trims=_events(folder, "trim"),
        calls=calls,
        asked=sum(used for _, used in replies),
        overflow=mind.overflow,
        refusals=tuple(str(exchange.error) for exchange in provider.refusals),
        fail_opens=_events(folder, "fail_open"),
    )


def judged(counted: Iterable[agent.Counted], golds: Mapping[str, str]) -> dict[str, Counts]:
    """Say by skill what became of the counts that came from a tool."""
    found: dict[str, Counts] = {}
    for each in counted:
        right = str(each.value) == golds[each.question]
        so_far = found.get(each.skill, Counts())
        found[each.skill] = Counts(
            so_far.right + right,
            so_far.warned + (not right and each.warned),
            so_far.silent + (not right and not each.warned),
        )
    return found


def environment(folder: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the run's processes, without settings of the person who runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.toml"
    config.touch()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CONTEXT_", "OPENMEM_"))}
    paths = [str(checkout.ROOT / "addon"), str(checkout.ROOT / "store")]
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(paths),
        "OPENMEM_STATE_DIR": str(folder),
        "OPENMEM_CONFIG": str(config),
        **settings,
    }


@contextlib.contextmanager
def proxy(folder: Path, provider_port: int, environ: dict[str, str]) -> Iterator[str]:
    """Run mitmdump with the addon in front of the provider, and give its address."""
    port = probe.free_port(mitm.LOOPBACK)
    given = ("--mode", f"reverse:http://{mitm.LOOPBACK}:{provider_port}", "--listen-port", str(port))
    arguments = mitm.arguments(
        mitm.Arguments(given), script=checkout.addon_script(), confdir=folder / "certs", roots=None, allowed=()
    )
    plan = Plan(
        command=python_command(sys.executable, arguments),
        host=mitm.LOOPBACK,
        port=port,
        version=version.code_hash(),
        root=str(folder / "context"),
        log=folder / "proxy.log",
        reverse=True,
        shared=False,
        environ=environ,
    )
    supervisor = Supervisor(plan, report=lambda line: print(line, file=sys.stderr))
    supervisor.begin()
    try:
        yield f"http://{mitm.LOOPBACK}:{supervisor.port}/v1/messages"
    finally:
        supervisor.stop()


@contextlib.asynccontextmanager
async def searching(environ: dict[str, str]) -> AsyncIterator[ClientSession]:
    """Run the search server on stdio and give an initialised client."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "openmem_store.reader.server"],
        env=environ,
        cwd=environ["OPENMEM_STATE_DIR"],
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def _play(
    stream: Stream, url: str, provider: Provider, environ: dict[str, str], *, tools: bool, system: int
) -> tuple[list[tuple[str, bool]], int]:
    """Give every operation in turn; return the reply to each question and whether it took a tool, and all calls."""
    async with searching(environ) as search:
        offered = (await search.list_tools()).tools if tools else []
        definitions = [_definition(tool) for tool in offered]
        loop = asyncio.get_running_loop()
        calls = 0

        def use(name: str, given: Json) -> str:
            nonlocal calls
            calls += 1
            work = search.call_tool(name.removeprefix(agent.PREFIX), given)
            result = asyncio.run_coroutine_threadsafe(work, loop).result()
            return "".join(getattr(part, "text", "") for part in result.content)

        def work() -> list[tuple[str, bool]]:
            replies: list[tuple[str, bool]] = []
            with httpx.Client(timeout=120, trust_env=False) as client:
                host = Client(client, use, session=SESSION, url=url, tools=definitions, system=system)
                for number, operation in enumerate(stream.operations):
                    before = calls
                    try:
                        reply = host.ask(operation.text if number else f"SCENARIO:{SCENARIO}\n{operation.text}")
                    except RefusedError:
                        break
                    provider.log.exchanges.clear()  # each holds the whole history: some hundred would fill the memory
                    if operation.question is not None:
                        replies.append((reply, calls > before))
            return replies

        return await asyncio.to_thread(work), calls


def _definition(tool: Any) -> Json:
    schema = getattr(tool, "input_schema", None) or tool.inputSchema
    return {"name": agent.PREFIX + tool.name, "description": tool.description, "input_schema": schema}


def _events(folder: Path, kind: str) -> int:
    path = Layout(folder / "context").database(SESSION)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(connection.execute("SELECT count(*) FROM events WHERE kind = ?", (kind,)).get)
    finally:
        connection.close()


def _prose(characters: int) -> str:
    source = random.Random("system")
    lines = [words(source, 12).capitalize() + "." for _ in range(characters // 80)]
    return "\n".join(lines)
