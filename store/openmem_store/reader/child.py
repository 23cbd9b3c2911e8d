"""Own the killable child: start it on a job, hear what it reports, end it when time is up.

A child is started afresh for each call, never forked: this process has threads and open databases.
It reports in lines, each a whole JSON document that supersedes the one before.
"""

import contextlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
from anyio.abc import Process

_BOOT = "import importlib, sys; sys.path.extend(sys.argv[2:]); importlib.import_module(sys.argv[1]).main()"

_NEEDED = ("openmem_store", "apsw", "msgspec", "regress")

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

    Ends the child in every case: after `seconds`, when this call is cancelled, and when it fails.
    """
    command = [sys.executable, "-I", "-S", "-c", _BOOT, module, *_paths()]
    environment = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
    reports = _Reports()
    with anyio.move_on_after(seconds) as clock:
        process = await anyio.open_process(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        try:
            await _converse(process, job, reports)
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)
    return Outcome(reports.newest, clock.cancelled_caught)


class _Reports:
    """Keep the newest whole line of a stream that may stop anywhere."""

    def __init__(self) -> None:
        self.newest: bytes | None = None
        self._rest = b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if lines:
            self.newest = lines[-1]


async def _converse(process: Process, job: bytes, reports: _Reports) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    # A child that dies before it has read its job breaks the pipe; that it said nothing tells the caller.
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.send(job)
        await process.stdin.aclose()
    async for chunk in process.stdout:
        reports.feed(chunk)
    await process.wait()


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.aclose()


def _paths() -> list[str]:
    """Return the import roots a child needs: it starts without site packages, to start fast."""
    roots: dict[str, None] = {}
    for name in _NEEDED:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            roots[str(Path(spec.origin).resolve().parents[1])] = None
    return list(roots)
