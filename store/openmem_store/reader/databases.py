"""Own which session files a call reads."""

import contextlib
import os
from pathlib import Path

import msgspec

from openmem_store import registration
from openmem_store.layout import Layout
from openmem_store.reader.answers import RefusedError

MOST_SESSIONS = 10
"""Sessions searched when none is named: enough for a day's work in one repository, few enough to answer at once."""


class Choice(msgspec.Struct, frozen=True):
    """The sessions one call reads."""

    sids: tuple[str, ...]
    """Newest first."""
    scope: str
    """Why these, in words for the answer."""


def choose(layout: Layout, sid: str | None, *, cwd: Path) -> Choice:
    """Return the one named session, else recent sessions of this workspace, else recent sessions of any.

    Raises RefusedError for a session that has no database, or a store without one, and OSError where that
    cannot be told.
    """
    if sid is not None:
        if not layout.database(sid).is_file():
            reach(layout.database(sid))
            raise RefusedError(
                f"session_id {sid!r} has no stored messages: use the id from the pointer in your context, "
                "or leave session_id out to search the recent sessions of this workspace"
            )
        return Choice((sid,), "the session you named")
    recent = stored(layout)
    if not recent:
        reach(layout.sessions)
        raise RefusedError("nothing is stored yet: no request of an agent has passed the proxy on this machine")
    root = workspace(cwd)
    here = [sid for sid in recent if _registered_under(layout, sid, root)]
    if here:
        return Choice(tuple(here[:MOST_SESSIONS]), f"the {len(here[:MOST_SESSIONS])} newest sessions of this workspace")
    newest = tuple(recent[:MOST_SESSIONS])
    return Choice(newest, f"no session is registered for this workspace, so the {len(newest)} newest of all")


def reach(path: Path) -> None:
    """Raise OSError unless a file or folder can be looked at or is surely not there.

    To look for files raises nothing where a folder may not be read or no descriptor is left: it finds none.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        path.stat()
        if path.is_dir():
            os.scandir(path).close()


def stored(layout: Layout) -> tuple[str, ...]:
    """Return the ids of all stored sessions, the one written last first."""
    times = written(layout)
    return tuple(sorted(times, key=lambda sid: (-times[sid], sid)))


def written(layout: Layout) -> dict[str, float]:
    """Return when each stored session was last written, in seconds since the epoch."""
    found: dict[str, float] = {}
    for path in layout.sessions.glob("*.db"):
        own = _changed(path)
        if own is not None:
            # A commit goes to the -wal first; the database file itself may stay old for hours.
            log = _changed(path.with_name(path.name + "-wal"))
            found[path.name.removesuffix(".db")] = own if log is None else max(own, log)
    return found


def workspace(directory: Path) -> Path:
    """Return the git root above `directory`, or the directory itself outside a repository."""
    resolved = directory.resolve()
    for parent in (resolved, *resolved.parents):
        if (parent / ".git").exists():
            return parent
    return resolved


def _registered_under(layout: Layout, sid: str, root: Path) -> bool:
    registered = registration.read(layout, sid)
    directory = registered.cwd if registered else None
    return bool(directory) and Path(str(directory)).resolve().is_relative_to(root)


def _changed(path: Path) -> float | None:
    """Return when a file was last written; None without one, and for an empty one, which a mere look leaves behind."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime if found.st_size else None
