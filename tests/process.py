"""Real parts for tests: mitmdump with the addon as a process, and the MCP server as a client sees it."""

import contextlib
import datetime
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from openmem_addon import hosts
from openmem_addon.commands import certificate, mitm, probe

REPOSITORY = Path(__file__).parent.parent

STARTUP_S = 30.0
"""A loaded machine compiles mitmproxy's bytecode at its first start."""


def environment(state: Path, **settings: str) -> dict[str, str]:
    """Return a child's environment with its own store, and no setting of the person who runs the tests."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("CONTEXT_", "OPENMEM_"))}
    paths = [str(REPOSITORY / "addon"), str(REPOSITORY / "store")]
    return {
        **inherited,
        "PYTHONPATH": os.pathsep.join(paths),
        "OPENMEM_STATE_DIR": str(state),
        "OPENMEM_CONFIG": str(state / "config.toml"),
        **settings,
    }


class Proxy:
    """mitmdump with the addon, redirected to a fake provider; can be killed and started again on its port."""

    def __init__(
        self,
        folder: Path,
        provider_port: int,
        settings: Mapping[str, str],
        *,
        tool: str = "mitmdump",
        words: Sequence[str] = (),
    ) -> None:
        """`words` are more arguments for the tool."""
        self._tool = tool
        self.port = probe.free_port("127.0.0.1")
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "proxy.log"
        authority = certificate.ensure(folder / "certs", hosts.PROVIDERS, now=datetime.datetime.now(datetime.UTC))
        self.certificate = authority.certificate
        given = mitm.Arguments(
            (
                *("--listen-port", str(self.port)),
                *("-s", str(REPOSITORY / "tests" / "redirect.py")),
                *("--set", f"redirect_port={provider_port}"),
                *words,
            )
        )
        self._arguments = mitm.arguments(
            given,
            script=REPOSITORY / "addon" / "main.py",
            confdir=authority.directory,
            roots=None,
            allowed=hosts.PROVIDERS,
        )
        self._environment = environment(folder / "state", **settings)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until the addon answers. Raises AssertionError with the log when it does not."""
        command = [sys.executable, str(Path(sys.executable).with_name(self._tool)), *self._arguments]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        deadline = time.monotonic() + STARTUP_S
        while probe.health("127.0.0.1", self.port) is None:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the proxy did not start:\n{self.log.read_text()}")
            time.sleep(0.05)

    def stop(self, sign: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait for the end, and return the exit code."""
        assert self._process is not None
        self._process.send_signal(sign)
        return self._process.wait(timeout=STARTUP_S)

    def restart(self) -> None:
        self.stop()
        self.start()


@contextlib.contextmanager
def running_proxy(folder: Path, provider_port: int, **settings: str) -> Iterator[Proxy]:
    """Run a proxy until the block ends; its store is `folder/state`, its log `folder/proxy.log`."""
    proxy = Proxy(folder, provider_port, settings)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


@contextlib.asynccontextmanager
async def reader(state: Path) -> AsyncIterator[ClientSession]:
    """Run the MCP server over stdio and yield an initialised client."""
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "openmem_store.reader.server"], env=environment(state), cwd=str(state)
    )
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def call(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool and return its JSON answer. Raises AssertionError for a tool error."""
    result = await session.call_tool(tool, arguments)
    text = "".join(getattr(part, "text", "") for part in result.content)
    failed = getattr(result, "is_error", None) or getattr(result, "isError", None)
    assert not failed, text
    return json.loads(text)
