"""The limits of a child."""

import subprocess
import sys
from pathlib import Path

import openmem_store

_ROOT = str(Path(openmem_store.__file__).resolve().parents[1])


def confined(code: str) -> subprocess.CompletedProcess[str]:
    program = (
        f"import sys; sys.path.append({_ROOT!r}); from openmem_store.reader import sandbox; sandbox.confine(); {code}"
    )
    return subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)


def test_memory_is_bounded() -> None:
    assert "MemoryError" in confined("bytearray(sandbox.MEMORY_BYTES)").stderr
    assert confined("bytearray(1 << 20)").returncode == 0


def test_files_are_bounded(tmp_path: Path) -> None:
    target = tmp_path / "large"
    assert "File too large" in confined(f"open({str(target)!r}, 'wb').write(bytes(sandbox.FILE_BYTES + 1))").stderr
    assert target.stat().st_size <= 1 << 20


def test_time_is_bounded_even_without_a_parent() -> None:
    read = "import resource; print(resource.getrlimit(resource.RLIMIT_CPU))"
    assert confined(read).stdout.strip() == "(4, 4)"


def test_a_child_reports_in_lines() -> None:
    assert confined("sandbox.ready(); sandbox.report(b'{}')").stdout == "ready\n{}\n"
