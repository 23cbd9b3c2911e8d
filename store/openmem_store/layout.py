"""Own the paths under the state root, their modes, and the atomic replacement of a file."""

import os
import re
import secrets
from pathlib import Path

SUFFIXES = (".db", ".db-wal", ".db-shm", ".json", ".trim.json", ".force", ".mend", ".off", ".notice", ".log.jsonl")
"""Every suffix a session's files may have; retention groups by them."""

_ASIDE = re.compile(r"\.corrupt-[0-9]+(-wal|-shm)?\Z")
_SCRATCH = re.compile(r"\..+\.[0-9a-f]{8}")

_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


class Layout:
    """Name every file of the store under one root (`$OPENMEM_STATE_DIR/context`)."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sessions = root / "sessions"
        self.blobs = root / "blobs"

    def prepare(self) -> None:
        """Create the directories, mode 700, and take access from group and others where they exist."""
        for directory in (self.root, self.sessions, self.blobs):
            directory.mkdir(parents=True, exist_ok=True, mode=_DIRECTORY_MODE)
            if directory.stat().st_mode & 0o077:
                directory.chmod(_DIRECTORY_MODE)

    def database(self, sid: str) -> Path:
        return self.sessions / f"{sid}.db"

    def trim(self, sid: str) -> Path:
        return self.sessions / f"{sid}.trim.json"

    def force(self, sid: str) -> Path:
        return self.sessions / f"{sid}.force"

    def mend(self, sid: str) -> Path:
        """Name the flag by which a reader that met a damaged index asks the session's writer for a new one."""
        return self.sessions / f"{sid}.mend"

    def off(self, sid: str | None) -> Path:
        """Name the switch of one session, or of all."""
        return self.root / ".off" if sid is None else self.sessions / f"{sid}.off"

    def notice(self, sid: str) -> Path:
        """Name what the proxy leaves for the prompt hook to say; JSON, one object a line."""
        return self.sessions / f"{sid}.notice"

    def registration(self, sid: str) -> Path:
        return self.sessions / f"{sid}.json"

    def blob(self, blob_id: str) -> Path:
        return self.blobs / f"{blob_id}.txt"

    @property
    def ttl_stamp(self) -> Path:
        return self.root / ".ttl-stamp"

    @property
    def writers_lock(self) -> Path:
        """One empty file whose byte ranges are the per-session writer locks."""
        return self.root / ".writers.lock"


def session_of(name: str) -> str | None:
    """Return the session that a file of `sessions/` belongs to; None for a dot file or another name.

    A damaged database that was set aside belongs to its session still: it holds its messages.
    """
    if name.startswith("."):
        return None
    name = _ASIDE.sub("", name)
    suffix = max((suffix for suffix in SUFFIXES if name.endswith(suffix)), key=len, default=None)
    return name.removesuffix(suffix) if suffix else None


def scratch_for(path: Path) -> Path:
    """Return a new name beside `path` for what will take its place."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")


def is_scratch(name: str) -> bool:
    """Tell whether a crash left this file behind, before it took the place of another."""
    return _SCRATCH.fullmatch(name) is not None


def replace(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically, mode 600: a reader sees the old bytes or the new, never a part.

    Survives a crash of this process; it does not fsync, so a power loss may bring the old bytes back.
    """
    scratch = scratch_for(path)
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
