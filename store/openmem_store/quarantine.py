"""Own what happens to a damaged session database: it is set aside under a new name, never deleted."""

import itertools
from pathlib import Path


def set_aside(database: Path) -> Path:
    """Rename `<sid>.db` to `<sid>.db.corrupt-<n>`, its `-wal` and `-shm` likewise, and return the new path.

    The three keep the names SQLite expects of each other, so that a recovery tool can open them.
    """
    names = (f"{database.name}.corrupt-{number}" for number in itertools.count(1))
    target = next(path for path in map(database.with_name, names) if not path.exists())
    database.rename(target)
    for tail in ("-wal", "-shm"):
        companion = database.with_name(database.name + tail)
        if companion.exists():
            companion.rename(target.with_name(target.name + tail))
    return target
