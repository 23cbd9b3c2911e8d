"""Children that are started ahead of their job."""

import os
import resource
import signal
from pathlib import Path

import anyio
import pytest
from openmem_store.reader import child
from openmem_store.reader.child import Outcome
from openmem_store.reader.spares import Spares

PROGRAM = """
import os, sys
from openmem_store.reader import sandbox

def main():
    job = sys.stdin.buffer.read()
    sandbox.ready()
    sandbox.report(b"%d %s" % (os.getpid(), job))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a module for the child that says who it is and what it was given."""
    known = child.import_roots()
    monkeypatch.setattr(child, "import_roots", lambda: [*known, str(tmp_path)])
    (tmp_path / "program.py").write_text(PROGRAM)
    return "program"


@pytest.fixture
def spares():
    made = Spares(idle_seconds=3600.0)
    yield made
    made.close()


def said(outcome: Outcome) -> tuple[int, bytes]:
    assert outcome.report is not None
    pid, _, job = outcome.report.partition(b" ")
    return int(pid), job


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_each_job_has_a_child_of_its_own_and_the_next_is_ready_behind_it(spares: Spares, module: str) -> None:
    assert spares.pids == ()
    first, job = said(await spares.run(module, b"one", seconds=60))
    (ready,) = spares.pids
    second, other = said(await spares.run(module, b"two", seconds=60))
    assert (job, other) == (b"one", b"two")
    assert second == ready != first
    assert gone(first)
    assert gone(second)


async def test_a_spare_that_was_ended_is_not_used(spares: Spares, module: str) -> None:
    await spares.run(module, b"one", seconds=60)
    (ready,) = spares.pids
    os.kill(ready, signal.SIGKILL)
    os.waitid(os.P_PID, ready, os.WEXITED | os.WNOWAIT)
    assert said(await spares.run(module, b"two", seconds=60))[0] != ready


async def test_a_spare_that_ends_before_it_is_ready_costs_no_answer(
    spares: Spares, module: str, tmp_path: Path
) -> None:
    """As one does that was ended between the look at it and its use."""
    mark = tmp_path / "mark"
    ends = f"    if os.path.exists({str(mark)!r}):\n        os.remove({str(mark)!r})\n        os._exit(1)\n"
    (tmp_path / "program.py").write_text(PROGRAM.replace("    sandbox.ready()\n", ends + "    sandbox.ready()\n"))
    mark.touch()
    with pytest.raises(child.NotStartedError):
        await spares.run(module, b"one", seconds=60)
    mark.touch()
    assert said(await spares.run(module, b"two", seconds=60))[1] == b"two"
    assert not mark.exists()


async def test_each_kind_of_work_has_its_spare(spares: Spares, module: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text(PROGRAM)
    await spares.run(module, b"", seconds=60)
    await spares.run("other", b"", seconds=60)
    assert len(spares.pids) == 2


async def test_a_cancelled_job_ends_its_child_and_leaves_a_spare(spares: Spares, module: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    lines = ("def main():", f"    open({str(started)!r}, 'w').write(str(os.getpid()))", "    while True: pass")
    (tmp_path / "program.py").write_text("import os\n" + "\n".join(lines))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: spares.run(module, b"", seconds=60))
            while not started.exists() or not started.read_text():
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    assert gone(int(started.read_text()))
    assert len(spares.pids) == 1


async def test_an_answer_outlives_that_the_next_child_cannot_be_started(spares: Spares, module: str) -> None:
    await spares.run(module, b"one", seconds=60)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, most[1]))
    try:
        outcome = await spares.run(module, b"two", seconds=60)
        with pytest.raises(OSError, match="Too many open files"):
            await spares.run(module, b"three", seconds=60)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, most)
    assert said(outcome)[1] == b"two"
    assert spares.pids == ()
    assert said(await spares.run(module, b"four", seconds=60))[1] == b"four"
    assert len(spares.pids) == 1


@pytest.mark.parametrize("module", ["openmem_store.reader.matcher", "openmem_store.reader.runner"])
async def test_a_spare_ends_with_the_process_that_started_it(module: str) -> None:
    """A killed process closes its end of the pipe, and that is all it can do."""
    spare = child.Child(module)
    spare._stdin.close()  # pyright: ignore[reportPrivateUsage]
    with anyio.fail_after(60):
        lines = [line async for line in spare.lines()]
    os.waitid(os.P_PID, spare.pid, os.WEXITED | os.WNOWAIT)
    assert lines == []
    spare.end()


async def test_spares_are_ended_when_nobody_asks_for_a_while(module: str) -> None:
    spares = Spares(idle_seconds=0.0)
    await spares.run(module, b"", seconds=60)
    spares.idle.wait()
    assert spares.pids == ()


async def test_closed_spares_leave_nothing_and_start_none(spares: Spares, module: str) -> None:
    await spares.run(module, b"", seconds=60)
    (ready,) = spares.pids
    spares.close()
    assert gone(ready)
    assert said(await spares.run(module, b"late", seconds=60))[1] == b"late"
    assert spares.pids == ()


LIMITED = """
import resource, sys
from openmem_store.reader import sandbox

def main():
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    sys.stdin.buffer.read()
    sandbox.ready()
    sandbox.report(repr(before).encode())
"""


async def test_a_spare_has_the_rights_of_any_child(spares: Spares, module: str, tmp_path: Path) -> None:
    """They are taken before it has a job."""
    (tmp_path / "program.py").write_text(LIMITED)
    for _ in range(2):
        assert (await spares.run(module, b"", seconds=60)).report == b"(0, 0)"
