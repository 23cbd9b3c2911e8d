"""Own what this program calls itself: its release, and the hash of the code that runs."""

import functools
import hashlib
from importlib.util import find_spec
from pathlib import Path

VERSION = "0.1.0"
"""The release, as in `pyproject.toml`."""

_PACKAGES = ("openmem_addon", "openmem_store")


@functools.cache
def code_hash() -> str:
    """Return the first 12 hex of the SHA-256 over every `.py` of both packages.

    Each file counts as its path (relative, POSIX, package name first), NUL, its bytes, NUL, in the
    order of the paths: so an installation and a checkout of the same code agree. Read once per
    process: the answer is about the code that was loaded, not what an update put there since.
    """
    files = {
        (name / path.relative_to(directory)).as_posix(): path
        for name, directory in map(_located, _PACKAGES)
        if directory is not None
        for path in directory.rglob("*.py")
    }
    digest = hashlib.sha256()
    for relative, path in sorted(files.items()):
        digest.update(relative.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _located(package: str) -> tuple[Path, Path | None]:
    """Return the package's relative path and its directory, without importing it; None if not installed."""
    spec = find_spec(package)
    places = spec.submodule_search_locations if spec else None
    return Path(package), Path(next(iter(places))) if places else None
