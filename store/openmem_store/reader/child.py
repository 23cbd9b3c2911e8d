"""Own the killable child: start it on a job, hear what it reports, end it when time is up.

A child does one job, and is started by itself, never forked: this process has threads and open databases.
It reports in lines, each a whole JSON document that supersedes the one before.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
import msgspec

from openmem_store.reader import sandbox
from openmem_store.reader.answers import RefusedError

_BOOT = """
import importlib, sys
sys.modules["typing_extensions"] = None
sys.path.extend(sys.argv[2:])
work = importlib.import_module(sys.argv[1])
importlib.import_module("openmem_store.reader.sandbox").confine()
work.main()
"""
"""msgspec takes `typing_extensions` where it finds it and needs none of it; importing it takes 40 ms of about 80."""

_NEEDED = ("openmem_store", "apsw", "msgspec", "regress")

START_SECONDS = 10.0
"""Patience with a child that starts: about 0.1 s are usual."""

_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""What an interpreter may need to start; nothing else of our environment concerns a child."""


_CHUNK = 1 << 16
"""Bytes read at a time."""


class Outcome(msgspec.Struct, frozen=True):
    """What a child reported and how it ended."""

    report: bytes | None
    """Its newest whole line; None when it said nothing."""
    timed_out: bool
    """It was killed at its time limit, so the report is of unfinished work."""


class NotStartedError(RefusedError):
    """The child ended, or said nothing, before it was ready: it did nothing of its job."""


class Run(Protocol):
    """How a job is done in a child."""

    async def __call__(self, module: str, job: bytes, *, seconds: float) -> Outcome: ...


class Child:
    """A started child, which waits for its job."""

    def __init__(self, module: str) -> None:
        environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
        self._process = subprocess.Popen(
            command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        for pipe in (self._stdin, self._stdout):
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    async def send(self, job: bytes) -> None:
        """Hand the job over, all of it."""
        rest = memoryview(job)
        # A child that dies before it has read its job breaks the pipe; that it said nothing tells the caller.
        with contextlib.suppress(BrokenPipeError):
            while rest:
                await anyio.wait_writable(self._stdin)
                rest = rest[os.write(self._stdin.fileno(), rest) :]
        self._stdin.close()

    async def lines(self) -> AsyncGenerator[bytes]:
        """Yield the whole lines that it reports; the last one may stop anywhere."""
        rest = b""
        while True:
            await anyio.wait_readable(self._stdout)
            chunk = os.read(self._stdout.fileno(), _CHUNK)
            if not chunk:
                return
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line

    def end(self) -> None:
        """End it at once, whatever it does, and leave nothing of it."""
        self._process.kill()
        self._process.wait()
        self._stdin.close()
        self._stdout.close()


async def run(module: str, job: bytes, *, seconds: float, start: Callable[[str], Child] = Child) -> Outcome:
    """Run `module.main()` in a child with `job` on its stdin, and return its newest report.

    `seconds` count from when the child is ready, so that a busy machine takes nothing from the work.
    `start` returns a child that waits for its job. Ends the child in every case: when time is up, when this
    call is cancelled, and when it fails. Raises NotStartedError when it does not start.
    """
    child = start(module)
    report: bytes | None = None
    try:
        lines = child.lines()
        first = b""
        with anyio.move_on_after(START_SECONDS):
            await child.send(job)
            first = await anext(lines, b"")
        if first != sandbox.READY:
            raise NotStartedError("the process that does this work did not start; try again")
        with anyio.move_on_after(seconds) as clock:
            async for line in lines:
                report = line
        return Outcome(report, clock.cancelled_caught)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(child.end)


def command(module: str) -> list[str]:
    """Return what starts a child on `module.main()`."""
    return [sys.executable, "-I", "-S", "-c", _BOOT, module, *import_roots()]


def import_roots() -> list[str]:
    """Return the import roots a child needs: it starts without site packages, to start fast."""
    roots: dict[str, None] = {}
    for name in _NEEDED:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            roots[str(Path(spec.origin).resolve().parents[1])] = None
    return list(roots)
