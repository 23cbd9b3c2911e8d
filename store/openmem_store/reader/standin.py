"""Own the stand-in for a session whose indexes are damaged: a copy made from its messages, for one answer.

The session itself is mended by its writer, with its next request; a flag beside it asks for that.
"""

import contextlib
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import anyio.to_thread
import apsw
import msgspec

from openmem_store import salvage, schema
from openmem_store.reader import results, scratch, source
from openmem_store.reader.results import Answer

SAID = "damaged: this answer is from a copy of all stored messages; the session's next request makes a new index"

_TABLES = ("messages", "lines", "messages_fts", "lines_fts", "vectors")
"""What a search reads; that one is gone is no damage to SQLite."""

_COUNT_TABLES = f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN {_TABLES}"

Files = Mapping[str, Path]
"""Session id to database."""


async def search(files: Files, ask: Callable[[dict[str, Path]], Awaitable[Answer]]) -> Answer:
    """Ask, and once more with copies of the sessions that could not be searched because of damage."""
    answer = await ask(dict(files))
    damaged = {sid: files[sid] for sid, why in answer.skipped.items() if why == results.DAMAGED}
    async with copies(damaged) as found:
        if not found:
            return answer
        answer = await ask({**files, **found})
    return msgspec.structs.replace(
        answer,
        databases={sid: str(files[sid]) for sid in answer.databases},
        search_index={sid: SAID for sid in found if sid in answer.databases},
    )


@contextlib.asynccontextmanager
async def copies(files: Files) -> AsyncGenerator[dict[str, Path]]:
    """Give a whole copy of each session that can be copied, removed after; and ask for a new index of each."""
    if not files:
        yield {}
        return
    stop = threading.Event()
    folder = scratch.folder()

    def work() -> dict[str, Path]:
        try:
            return dict(_copied(files, Path(folder.name), stop.is_set))
        finally:
            if stop.is_set():  # whoever asked is gone, and has removed what there was by then
                folder.cleanup()

    try:
        yield await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    finally:
        stop.set()
        folder.cleanup()


def _copied(files: Files, folder: Path, stop: Callable[[], bool]) -> Iterable[tuple[str, Path]]:
    for number, (sid, path) in enumerate(files.items()):
        copy = folder / f"{number}.db"
        try:
            with source.readable(path) as found:
                if _is_sound(found):  # another file took its place while it was read: the next call reads that
                    continue
                salvage.copy(Path(found.path), copy, immutable=found.immutable, durable=False, stop=stop)
        except (apsw.Error, schema.UnsupportedSchema):
            copy.unlink(missing_ok=True)  # damaged beyond its indexes: its writer sets it aside
            continue
        _ask_for_a_new_index(path)
        yield sid, copy


def _is_sound(found: source.Source) -> bool:
    """Tell whether nothing is wrong with a file: its writer must not replace it for a mistake of ours."""
    connection = source.connect(found)
    try:
        tables = int(connection.execute(_COUNT_TABLES).get or 0)
        return tables == len(_TABLES) and connection.execute("PRAGMA integrity_check(1)").get == "ok"
    except (apsw.CorruptError, apsw.SQLError):
        return False
    finally:
        connection.close()


def _ask_for_a_new_index(path: Path) -> None:
    """Leave the flag that a writer looks for, where this process may write. One that is there keeps its time.

    A new one is as old as the session: to search in it does not prolong it.
    """
    flag = path.with_suffix(".mend")
    with contextlib.suppress(OSError):
        found = path.stat()
        flag.touch(mode=0o600, exist_ok=False)
        os.utime(flag, ns=(found.st_atime_ns, found.st_mtime_ns))
