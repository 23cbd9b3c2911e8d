import os
import subprocess
import sys
from pathlib import Path

import pytest
from openmem_store.lock import Lock, WriterBusy

HOLD = """
import sys
from pathlib import Path
from openmem_store.lock import Lock
lock = Lock(Path(sys.argv[1]), sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


def holder(path: Path, sid: str) -> subprocess.Popen[str]:
    """Start a process that holds the lock of `sid` until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), sid],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_another_process_is_refused_until_the_holder_ends(tmp_path: Path) -> None:
    path = tmp_path / ".writers.lock"
    process = holder(path, "s")
    with pytest.raises(WriterBusy, match="another process"):
        Lock(path, "s")
    Lock(path, "other").release()
    process.kill()
    process.communicate()
    lock = Lock(path, "s")
    assert lock.valid()
    lock.release()


def test_a_second_holder_in_this_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".writers.lock"
    lock = Lock(path, "s")
    with pytest.raises(WriterBusy, match="this process"):
        Lock(path, "s")
    lock.release()
    Lock(path, "s").release()


def test_releasing_one_session_keeps_the_others(tmp_path: Path) -> None:
    """POSIX drops every lock of a process when it closes any descriptor of the file."""
    path = tmp_path / ".writers.lock"
    kept, given = Lock(path, "kept"), Lock(path, "given")
    given.release()
    Lock(path, "given").release()
    refused = subprocess.run(
        [sys.executable, "-c", HOLD, str(path), "kept"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert "WriterBusy" in refused.stderr
    kept.release()


def test_a_second_release_does_not_free_another_holder(tmp_path: Path) -> None:
    path = tmp_path / ".writers.lock"
    first = Lock(path, "s")
    first.release()
    second = Lock(path, "s")
    first.release()
    with pytest.raises(WriterBusy):
        Lock(path, "s")
    assert (first.valid(), second.valid()) == (False, True)
    second.release()


def test_a_lock_whose_file_was_deleted_is_not_valid(tmp_path: Path) -> None:
    path = tmp_path / ".writers.lock"
    old = Lock(path, "s")
    path.unlink()
    assert not old.valid()
    new = Lock(path, "s")
    assert not old.valid()
    assert new.valid()
    old.release()
    assert new.valid()
    new.release()


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_no_descriptor_stays_when_nothing_is_held(tmp_path: Path) -> None:
    path = tmp_path / ".writers.lock"
    before = descriptors()
    locks = [Lock(path, str(number)) for number in range(5)]
    assert descriptors() == before + 1
    for lock in locks:
        lock.release()
    assert descriptors() == before


def test_no_descriptor_stays_after_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / ".writers.lock"
    process = holder(path, "s")
    before = descriptors()
    with pytest.raises(WriterBusy):
        Lock(path, "s")
    assert descriptors() == before
    process.communicate()


def test_a_lock_file_that_cannot_be_made_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Lock(tmp_path / "none" / ".writers.lock", "s")
