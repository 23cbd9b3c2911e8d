import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

import openmem_store
import pytest
from openmem_store import version

ROOT = Path(openmem_store.__file__).parents[2]


@pytest.fixture(autouse=True)
def _hash_anew() -> None:
    version.code_hash.cache_clear()


def test_the_hash_is_over_every_module_of_both_packages_by_path() -> None:
    digest = hashlib.sha256()
    files = {
        path.relative_to(ROOT / root).as_posix(): path
        for root in ("addon", "store")
        for path in (ROOT / root / f"openmem_{root}").rglob("*.py")
    }
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + files[name].read_bytes() + b"\0")
    assert version.code_hash() == digest.hexdigest()[:12]


def package(place: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def hash_in(*places: Path) -> str:
    """Return the hash that a process sees whose packages lie in `places`; it must import no addon."""
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "import importlib.util as u; s = u.spec_from_file_location('version', sys.argv[1])\n"
        "m = u.module_from_spec(s); s.loader.exec_module(m); print(m.code_hash())\n"
        "assert 'openmem_addon' not in sys.modules"
    )
    command = [sys.executable, "-I", "-S", "-c", code, str(version.__file__), *map(str, places)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


ADDON = {"openmem_addon/__init__.py": "raise SystemExit('imported')", "openmem_addon/core/plan.py": "x = 1"}
STORE = {"openmem_store/__init__.py": "", "openmem_store/rows.py": "y = 2"}


def test_an_installation_and_a_checkout_of_one_code_agree(tmp_path: Path) -> None:
    package(tmp_path / "site-packages", ADDON | STORE)
    package(tmp_path / "checkout/addon", ADDON)
    package(tmp_path / "checkout/store", STORE)
    installed = hash_in(tmp_path / "site-packages")
    assert installed == hash_in(tmp_path / "checkout/addon", tmp_path / "checkout/store")
    assert len(installed) == 12


@pytest.mark.parametrize(
    "change",
    [
        {"openmem_addon/core/plan.py": "x = 2"},
        {"openmem_addon/core/more.py": ""},
        {"openmem_store/rows.py": ""},
    ],
)
def test_any_changed_or_added_module_changes_the_hash(tmp_path: Path, change: dict[str, str]) -> None:
    package(tmp_path, ADDON | STORE | {"openmem_store/notes.txt": "not code"})
    before = hash_in(tmp_path)
    package(tmp_path, {"openmem_store/notes.txt": "still not code"})
    assert hash_in(tmp_path) == before
    package(tmp_path, change)
    assert hash_in(tmp_path) != before


def test_a_store_without_the_addon_has_a_hash_too(tmp_path: Path) -> None:
    package(tmp_path, STORE)
    assert len(hash_in(tmp_path)) == 12


def test_the_release_is_the_one_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == version.VERSION
