"""Damage to a session database as a bad disk does it: pages are overwritten."""

from pathlib import Path

import apsw

PAGE = 4096


def spoil(path: Path, name: str) -> None:
    """Overwrite the first leaf page of a table or index. No connection may have the file open."""
    connection = apsw.Connection(str(path))
    number = connection.execute("SELECT min(pageno) FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (name,)).get
    connection.close()
    with path.open("r+b") as file:
        file.seek((int(number) - 1) * PAGE)
        file.write(b"\xa5" * PAGE)
