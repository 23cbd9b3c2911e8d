"""Own the killable child: start it on a job, hear what it reports, end it when time is up.

A child is started afresh for each call, never forked: this process has threads and open databases.
It reports in lines, each a whole JSON document that supersedes the one before.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import msgspec
from anyio.abc import Process

from openmem_store.reader import sandbox
from openmem_store.reader.answers import RefusedError

_BOOT = """
import importlib, sys
sys.modules["typing_extensions"] = None
sys.path.extend(sys.argv[2:])
importlib.import_module(sys.argv[1]).main()
"""
"""msgspec takes `typing_extensions` where it finds it and needs none of it; importing it takes 40 ms of about 80."""

_NEEDED = ("openmem_store", "apsw", "msgspec", "regress")

START_SECONDS = 10.0
"""Patience with a child that starts: about 0.1 s are usual."""

_KEPT_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
"""What an interpreter may need to start; nothing else of our environment concerns a child."""


class Outcome(msgspec.Struct, frozen=True):
    """What a child reported and how it ended."""

    report: bytes | None
    """Its newest whole line; None when it said nothing."""
    timed_out: bool
    """It was killed at its time limit, so the report is of unfinished work."""


async def run(module: str, job: bytes, *, seconds: float) -> Outcome:
    """Run `module.main()` in a child with `job` on its stdin, and return its newest report.

    `seconds` count from when the child is ready, so that a busy machine takes nothing from the work.
    Ends the child in every case: when time is up, when this call is cancelled, and when it fails.
    Raises RefusedError when it does not start.
    """
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    process = await anyio.open_process(
        command(module), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    report: bytes | None = None
    try:
        lines = _lines(process)
        first = b""
        with anyio.move_on_after(START_SECONDS):
            await _send(process, job)
            first = await anext(lines, b"")
        if first != sandbox.READY:
            raise RefusedError("the process that does this work did not start; try again")
        with anyio.move_on_after(seconds) as clock:
            async for line in lines:
                report = line
            await process.wait()
        return Outcome(report, clock.cancelled_caught)
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)


async def _lines(process: Process) -> AsyncGenerator[bytes]:
    """Yield the whole lines of a child's stdout, which may stop anywhere."""
    assert process.stdout is not None
    rest = b""
    async for chunk in process.stdout:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


async def _send(process: Process, job: bytes) -> None:
    assert process.stdin is not None
    # A child that dies before it has read its job breaks the pipe; that it said nothing tells the caller.
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.send(job)
        await process.stdin.aclose()


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.aclose()


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
