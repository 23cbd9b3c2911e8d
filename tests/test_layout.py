"""Whose rule: a test lies where its source lies, so that each is found from the other."""

from pathlib import Path

ROOT = Path(__file__).parent.parent

ROOTS = {
    "addon/openmem_addon": "tests/addon",
    "store/openmem_store": "tests/store",
    "fixtures/provider": "tests/provider",
}
"""Source folders and the folder that mirrors each."""

WITHOUT_TWIN = ("__init__.py", "__main__.py")


def sources(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*.py") if path.name not in WITHOUT_TWIN}


def test_every_source_module_has_its_test() -> None:
    missing = [
        f"{mirror}/{module.with_name(f'test_{module.name}')}"
        for source, mirror in ROOTS.items()
        for module in sorted(sources(ROOT / source))
        if not (ROOT / mirror / module.with_name(f"test_{module.name}")).is_file()
    ]
    assert not missing, "\n".join(missing)


def test_every_test_has_its_source_module() -> None:
    stray = [
        str(test.relative_to(ROOT))
        for source, mirror in ROOTS.items()
        for test in sorted((ROOT / mirror).rglob("test_*.py"))
        if test.relative_to(ROOT / mirror).with_name(test.name.removeprefix("test_")) not in sources(ROOT / source)
    ]
    assert stray == []


def test_no_package_among_the_tests() -> None:
    """Two test modules may have one name: they are imported by path."""
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_beside_the_script_of_the_addon_lies_nothing_but_the_package() -> None:
    """mitmproxy puts the script's folder first on the module path: any name here would hide another module."""
    found = {path.name for path in (ROOT / "addon").iterdir() if not path.name.startswith((".", "__pycache__"))}
    assert found == {"main.py", "openmem_addon"}
    assert len((ROOT / "addon/main.py").read_text().splitlines()) <= 8


def test_the_scripts_can_be_run() -> None:
    for script in ("run.sh", ".ci/run"):
        assert (ROOT / script).stat().st_mode & 0o100
        assert (ROOT / script).read_text().startswith("#!/usr/bin/env bash\n")
