"""The killable child, with small programs in the place of the real ones."""

import os
from pathlib import Path

import anyio
import pytest
from openmem_store.reader import child, sandbox
from openmem_store.reader.answers import RefusedError

PRELUDE = "import os, sys\nfrom openmem_store.reader import sandbox\ndef main():\n"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function that makes a module for the child out of the lines of its `main`."""
    known = child.import_roots()
    monkeypatch.setattr(child, "import_roots", lambda: [*known, str(tmp_path)])

    def write(*lines: str) -> str:
        (tmp_path / "program.py").write_text(PRELUDE + "".join(f"    {line}\n" for line in lines))
        return "program"

    return write


async def test_the_newest_line_is_the_report(program) -> None:
    module = program(
        "job = sys.stdin.buffer.read()", "sandbox.ready()", "sandbox.report(b'old')", "sandbox.report(job)"
    )
    assert await child.run(module, b"new", seconds=60) == child.Outcome(b"new", False)


async def test_what_was_reported_before_the_kill_stands(program) -> None:
    module = program("sandbox.ready()", "sandbox.report(b'part')", "os.write(1, b'half a li')", "while True: pass")
    assert await child.run(module, b"", seconds=0.5) == child.Outcome(b"part", True)


async def test_a_child_that_dies_has_no_report(program) -> None:
    assert await child.run(program("sandbox.ready()", "os._exit(9)"), b"", seconds=60) == child.Outcome(None, False)


async def test_a_child_that_does_not_start_is_refused(program) -> None:
    with pytest.raises(RefusedError, match="did not start"):
        await child.run(program("raise SystemExit(1)"), b"x" * 1_000_000, seconds=60)


async def test_a_cancelled_call_ends_its_child(program, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    module = program(f"open({str(pid_file)!r}, 'w').write(str(os.getpid()))", "sandbox.ready()", "while True: pass")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: child.run(module, b"", seconds=60))
            while not pid_file.exists() or not pid_file.read_text():
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


async def test_a_child_is_confined_before_it_reads_its_job(program) -> None:
    limits = f"{{limit: resource.getrlimit(limit) for limit in {[int(each) for each in sandbox.LIMITS]}}}"
    module = program(
        "import resource", f"before = {limits}", "sys.stdin.buffer.read()", "sandbox.ready()",
        "sandbox.report(repr(before).encode())",
    )  # fmt: skip
    wanted = {int(limit): (most, most) for limit, most in sandbox.LIMITS.items()}
    assert (await child.run(module, b"", seconds=60)).report == repr(wanted).encode()


async def test_nothing_of_our_environment_reaches_a_child(program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_EMBEDDING_API_KEY", "secret")
    module = program("sandbox.ready()", "sandbox.report(repr('secret' in os.environ.values()).encode())")
    assert (await child.run(module, b"", seconds=60)).report == b"False"
