"""Own how long anything is kept: sessions by age or until they are forgotten, blobs while a session names them."""

import contextlib
import math
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from pathlib import Path

import apsw
import msgspec

from openmem_store import schema
from openmem_store.layout import Layout, is_scratch, session_of
from openmem_store.lock import Lock, WriterBusy

DAY = 86_400.0
"""Seconds; also the least time between two sweeps."""

IN_FLIGHT = 60.0
"""Seconds for which a blob without a row is left alone: it is written just before the row that names it."""

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
            with contextlib.suppress(WriterBusy), _alone(layout, sid):
                if _newest(_files_of(layout, sid)) < oldest:
                    _unlink(_files_of(layout, sid))
                    removed.append(sid)
        except OSError as error:
            failures.append(error)
    expired = [path for path in _debris(layout) if _modified(path) < oldest]
    failures += _delete([*expired, *(_unnamed_blobs(layout, oldest) or ())])
    if failures:
        raise failures[0]
    return tuple(removed)


class Forgotten(msgspec.Struct, frozen=True):
    """What `forget` deleted, and what it had to leave."""

    sessions: tuple[str, ...]
    """Ids whose files are gone."""
    in_use: tuple[str, ...]
    """Ids that a running proxy writes."""
    blobs: int
    """Texts of compressed tool results that are gone."""
    blobs_checked: bool
    """False: no such text was deleted, because a remaining session that may name it cannot be read."""


def stored(layout: Layout) -> dict[str, int]:
    """Return the id of every session that has a file, sorted, and the bytes of its files."""
    return {sid: sum(map(_size, files)) for sid, files in sorted(_sessions(layout).items())}


def forget(layout: Layout, sids: Iterable[str], *, now: float) -> Forgotten:
    """Delete these sessions whatever their age, and every blob that no remaining session names.

    A session that any writer holds stays whole. `now`: seconds since the epoch. Raises the first
    OSError met while deleting, after everything else was tried.
    """
    failures: list[OSError] = []
    removed: list[str] = []
    in_use: list[str] = []
    orphans: set[str] = set()
    for sid in sids:
        try:
            with _alone(layout, sid):
                orphans |= _names(layout.database(sid))
                _unlink([*_files_of(layout, sid), *_debris_of(layout, sid)])
                removed.append(sid)
        except WriterBusy:
            in_use.append(sid)
        except OSError as error:
            failures.append(error)
    unnamed = _unnamed_blobs(layout, now - IN_FLIGHT, orphans=orphans)
    failures += _delete(unnamed or ())
    if failures:
        raise failures[0]
    return Forgotten(tuple(removed), tuple(in_use), len(unnamed or ()), unnamed is not None)


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


@contextlib.contextmanager
def _alone(layout: Layout, sid: str) -> Generator[None]:
    """Keep every writer away from `sid`. Raises WriterBusy where one has it."""
    lock = Lock(layout.writers_lock, sid)
    try:
        yield
    finally:
        lock.release()


def _files_of(layout: Layout, sid: str) -> list[Path]:
    """Return the session's files, the database before its log: never a log without its commits."""
    return sorted(_files(layout.sessions, lambda name: session_of(name) == sid))


def _debris_of(layout: Layout, sid: str) -> list[Path]:
    def of_this(name: str) -> bool:
        return is_scratch(name) and session_of(name[1:].rpartition(".")[0]) == sid

    return list(_files(layout.sessions, of_this))


def _unlink(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _delete(paths: Iterable[Path]) -> list[OSError]:
    """Delete what can be deleted and return why the rest cannot."""
    failures: list[OSError] = []
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            failures.append(error)
    return failures


def _newest(files: Collection[Path]) -> float:
    """Return when the session last changed.

    A `-shm` and an empty `-wal` are what a reader leaves by looking: searching in a session, or
    listing it, does not prolong it.
    """
    changed = [path for path in files if not path.name.endswith("-shm") and not _empty_log(path)]
    return max(map(_modified, changed or files), default=math.inf)


def _empty_log(path: Path) -> bool:
    return path.name.endswith("-wal") and path.exists() and path.stat().st_size == 0


def _modified(path: Path) -> float:
    """Return the time of the last change; a file that another sweep took meanwhile is never old."""
    try:
        return path.lstat().st_mtime
    except FileNotFoundError:
        return math.inf


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except FileNotFoundError:
        return 0


def _unnamed_blobs(layout: Layout, oldest: float, *, orphans: Collection[str] = ()) -> list[Path] | None:
    """Return the blobs that no session names and that are older than `oldest` or in `orphans`.

    None while a session cannot be read: it may name any of them.
    """
    blobs = {
        path.stem: path
        for path in _files(layout.blobs, lambda name: name.endswith(".txt") and not name.startswith("."))
        if path.stem in orphans or _modified(path) < oldest
    }
    if not blobs:
        return []
    for database in _files(layout.sessions, lambda name: name.endswith(".db") and not name.startswith(".")):
        try:
            for blob_id in _named(database):
                blobs.pop(blob_id, None)
        except (apsw.Error, schema.UnsupportedSchema):
            return None
    return [path for path in blobs.values() if path.stem in orphans or _modified(path) < oldest]


def _names(database: Path) -> set[str]:
    """Return the blobs that a session names; none where it cannot be read."""
    try:
        return set(_named(database)) if database.is_file() else set()
    except (apsw.Error, schema.UnsupportedSchema):
        return set()


def _named(database: Path) -> list[str]:
    if database.stat().st_size == 0 and not database.with_name(database.name + "-wal").exists():
        return []
    try:
        connection = schema.open_reader(database)
    except schema.NothingStored:
        return []
    try:
        return [blob_id for (blob_id,) in connection.execute(_NAMED)]
    finally:
        connection.close()
