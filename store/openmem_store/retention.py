"""Own how long anything is kept: sessions by age, blobs while a session names them."""

import math
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import apsw

from openmem_store import schema
from openmem_store.layout import Layout, is_scratch, session_of
from openmem_store.lock import Lock, WriterBusy

DAY = 86_400.0
"""Seconds; also the least time between two sweeps."""

_NAMED = "SELECT DISTINCT blob_id FROM messages WHERE kind = 'tool_result' AND blob_id IS NOT NULL"


def sweep(layout: Layout, *, ttl_days: int, now: float, busy: Collection[str] = ()) -> tuple[str, ...]:
    """Delete what is older than `ttl_days` and return the ids of the sessions removed, sorted.

    `now`: seconds since the epoch. Does nothing for 0 days, nor within 24 hours of the last sweep.
    Sessions in `busy` stay, and those that any writer holds open. Blobs older than that go too,
    unless a remaining session names them. Raises OSError when the stamp cannot be written, and the
    first one met while deleting, after everything else was tried.
    """
    if ttl_days <= 0 or not layout.sessions.is_dir() or not _due(layout.ttl_stamp, now):
        return ()
    oldest = now - ttl_days * DAY
    failures: list[OSError] = []
    removed: list[str] = []
    for sid in sorted(_sessions(layout).keys() - set(busy)):
        try:
            if _remove(layout, sid, oldest):
                removed.append(sid)
        except OSError as error:
            failures.append(error)
    expired = [path for path in _debris(layout) if _modified(path) < oldest]
    for path in [*expired, *_unnamed_blobs(layout, oldest)]:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            failures.append(error)
    if failures:
        raise failures[0]
    return tuple(removed)


def _due(stamp: Path, now: float) -> bool:
    """Tell whether a sweep may run, and stamp it. A stamp from far ahead, by a wrong clock, does not count."""
    try:
        if abs(now - stamp.stat().st_mtime) <= DAY:
            return False
    except FileNotFoundError:
        os.close(os.open(stamp, os.O_WRONLY | os.O_CREAT, 0o600))
    os.utime(stamp, (now, now))
    return True


def _files(directory: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    if directory.is_dir():
        with os.scandir(directory) as entries:
            for entry in entries:
                if wanted(entry.name) and not entry.is_dir(follow_symlinks=False):
                    yield Path(entry.path)


def _sessions(layout: Layout) -> dict[str, list[Path]]:
    sessions: dict[str, list[Path]] = {}
    for path in _files(layout.sessions, lambda name: session_of(name) is not None):
        sessions.setdefault(str(session_of(path.name)), []).append(path)
    return sessions


def _debris(layout: Layout) -> list[Path]:
    """Return files that a crash left half written; they may hold a conversation too."""
    return [path for place in (layout.sessions, layout.blobs) for path in _files(place, is_scratch)]


def _remove(layout: Layout, sid: str, oldest: float) -> bool:
    """Delete the files of `sid` unless one is newer than `oldest` or a writer has the session."""
    try:
        lock = Lock(layout.writers_lock, sid)
    except WriterBusy:
        return False
    try:
        files = list(_files(layout.sessions, lambda name: session_of(name) == sid))
        if not files or _newest(files) >= oldest:
            return False
        for path in sorted(files):  # the database goes before its log: never a log without its commits
            path.unlink(missing_ok=True)
        return True
    finally:
        lock.release()


def _newest(files: Collection[Path]) -> float:
    """Return when the session last changed.

    A `-shm` and an empty `-wal` are what a reader leaves by looking: searching in a session, or
    listing it, does not prolong it.
    """
    changed = [path for path in files if not path.name.endswith("-shm") and not _empty_log(path)]
    return max(map(_modified, changed or files))


def _empty_log(path: Path) -> bool:
    return path.name.endswith("-wal") and path.exists() and path.stat().st_size == 0


def _modified(path: Path) -> float:
    """Return the time of the last change; a file that another sweep took meanwhile is never old."""
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return math.inf


def _unnamed_blobs(layout: Layout, oldest: float) -> list[Path]:
    """Return the blobs older than `oldest` that no session names; none while a session cannot be read."""
    blobs = {
        path.stem: path
        for path in _files(layout.blobs, lambda name: name.endswith(".txt") and not name.startswith("."))
        if _modified(path) < oldest
    }
    if not blobs:
        return []
    for database in _files(layout.sessions, lambda name: name.endswith(".db") and not name.startswith(".")):
        try:
            for blob_id in _named(database):
                blobs.pop(blob_id, None)
        except (apsw.Error, schema.UnsupportedSchema):
            return []
    return [path for path in blobs.values() if _modified(path) < oldest]


def _named(database: Path) -> list[str]:
    if database.stat().st_size == 0 and not database.with_name(database.name + "-wal").exists():
        return []
    connection = schema.open_reader(database)
    try:
        return [blob_id for (blob_id,) in connection.execute(_NAMED)]
    finally:
        connection.close()
