"""Own the demo's session: a scripted agent and model, between them the real proxy, beside them the real search.

Uses the fixtures of a checkout, so the checkout must be on the module path. Collects evidence and judges none.
"""

import asyncio
import json
import re
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw
import httpx
import msgspec
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from openmem_store import version
from openmem_store.layout import Layout

from fixtures.agent import SEARCH, Agent
from fixtures.provider.exchange import Exchange
from fixtures.provider.scenario import Asked, Call, Step
from fixtures.provider.server import Provider, serve
from openmem_addon.commands import checkout, mitm, probe
from openmem_addon.commands.supervisor import Plan, Supervisor, python_command

SESSION = "demo-session"
THRESHOLD = 6_000
"""Tokens; small, so that a session of half a minute outgrows it."""
PAGES = 36
_PAGE_OF_THE_KEY = 2
_QUESTION = "Which key opens the north shelf of the seed store?"
_QUERY = "key north shelf seed store"

_POINTER_SESSION = re.compile(r"\[openmem: continuing session (\S+);")
_KEY = re.compile(r"KESTREL-[0-9A-F]{4}")

_SUBJECTS = ("The gardener", "The night clerk", "A visitor", "The carpenter", "The ferry", "The archive")
_ACTS = ("counts the lanterns", "mends the gate", "writes to the harbour", "moves the benches", "waters the seedlings")
_PLACES = ("beside the mill", "under the west roof", "behind the orchard", "along the canal", "near the bell tower")


class Played(msgspec.Struct, frozen=True):
    """What a whole session left behind."""

    exchanges: tuple[Exchange, ...]
    """As the provider saw and answered them, in order."""
    sent: tuple[dict[str, Any], ...]
    """The agent's own history at the end; its last reply was never sent."""
    database: Path
    question: str
    key: str
    """What the answer must name; made up for this run."""
    found: dict[str, Any]
    """The search tool's answer."""
    answer: str
    """The model's last words."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what a statement finds in the session's database."""
        connection = apsw.Connection(str(self.database), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(connection.execute(statement))
        finally:
            connection.close()


def run(folder: Path, inherited: Mapping[str, str]) -> Played:
    """Play the session with everything it stores below `folder`. Raises what goes wrong, with nothing left running."""
    environ = environment(folder, inherited)
    provider = Provider({"read": _reading, "ask": _asking})
    with serve(provider) as running:
        supervisor = Supervisor(_plan(folder, running.port, environ), report=_complain)
        try:
            supervisor.begin()
            return asyncio.run(_session(supervisor, provider, folder, environ))
        finally:
            supervisor.stop()


def environment(folder: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the demo's processes: the user's, without settings that would change its course."""
    config = folder / "config.toml"
    config.touch()
    return {
        **{name: value for name, value in inherited.items() if not name.startswith(("CONTEXT_", "OPENMEM_"))},
        "OPENMEM_STATE_DIR": str(folder),
        "OPENMEM_CONFIG": str(config),
        "CONTEXT_TRIM_TOKENS": str(THRESHOLD),
    }


def _plan(folder: Path, provider_port: int, environ: dict[str, str]) -> Plan:
    port = probe.free_port(mitm.LOOPBACK)
    words = ("--mode", f"reverse:http://{mitm.LOOPBACK}:{provider_port}", "--listen-port", str(port))
    arguments = mitm.arguments(
        mitm.Arguments(words), script=checkout.addon_script(), confdir=folder / "certs", roots=None, allowed=()
    )
    return Plan(
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


async def _session(supervisor: Supervisor, provider: Provider, folder: Path, environ: dict[str, str]) -> Played:
    """Let the agent work in a thread of its own while this loop serves its calls of the search tool."""
    key = f"KESTREL-{secrets.token_hex(2).upper()}"
    answers: list[dict[str, Any]] = []
    server = StdioServerParameters(
        command=sys.executable, args=["-P", "-m", "openmem_addon.commands.cli", "mcp"], env=environ, cwd=str(folder)
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as search:
        await search.initialize()
        loop = asyncio.get_running_loop()

        def tool(name: str, given: dict[str, Any]) -> str:
            if name != SEARCH:
                return page(int(given["cmd"].removeprefix("cat page-").removesuffix(".txt")), key)
            text = asyncio.run_coroutine_threadsafe(_call(search, given), loop).result()
            answers.append(json.loads(text))
            return text

        def work() -> tuple[str, Agent]:
            with httpx.Client(timeout=30, trust_env=False) as client:
                url = f"http://{mitm.LOOPBACK}:{supervisor.port}/v1/messages?beta=true"
                agent = Agent(client, tool, session=SESSION, url=url, thinking={"type": "adaptive"})
                agent.ask("SCENARIO:read Please read the pages of the village chronicle, one by one.")
                return agent.ask(f"SCENARIO:ask {_QUESTION}"), agent

        answer, agent = await asyncio.to_thread(work)
    return Played(
        exchanges=tuple(provider.exchanges),
        sent=tuple(agent.messages),
        database=Layout(folder / "context").database(SESSION),
        question=_QUESTION,
        key=key,
        found=answers[-1],
        answer=answer,
    )


async def _call(search: ClientSession, given: dict[str, Any]) -> str:
    result = await search.call_tool("smart_compact_search", given)
    return "".join(getattr(part, "text", "") for part in result.content)


def page(number: int, key: str) -> str:
    """Return one page of an invented chronicle, always the same for its number; one page names the key."""
    lines = [f"Page {number} of the village chronicle."]
    for line in range(24):
        turn = number * 7 + line
        lines.append(
            f"{_SUBJECTS[turn % 6]} {_ACTS[turn // 2 % 5]} {_PLACES[turn // 3 % 5]}, entry {number * 100 + line}."
        )
    if number == _PAGE_OF_THE_KEY:
        lines[12] = f"The north shelf of the seed store opens with the key {key}."
    return "\n".join(lines)


def _reading(asked: Asked) -> Step:
    if asked.index >= PAGES:
        return Step(text="I have read every page of the chronicle.")
    return Step(
        thinking=f"Page {asked.index} comes next.",
        text=f"Reading page {asked.index}.",
        tools=(Call(name="run", input={"cmd": f"cat page-{asked.index}.txt"}),),
    )


def _asking(asked: Asked) -> Step:
    """Search where the pointer says, then answer with nothing but what the search returned."""
    if asked.index == 0:
        pointer = _POINTER_SESSION.search(json.dumps(asked.body["messages"]))
        given = {"query": _QUERY, "in_context": False, **({"session_id": pointer.group(1)} if pointer else {})}
        return Step(
            text="That page is no longer in front of me. I search for it.", tools=(Call(name=SEARCH, input=given),)
        )
    key = _KEY.search(json.dumps(asked.body["messages"][-1]))
    return Step(text=f"The key is {key.group()}." if key else "The search did not return it.")


def _complain(line: str) -> None:
    print(f"openmem-context: {line}", file=sys.stderr)
