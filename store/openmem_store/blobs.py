"""Own the full texts of compressed tool results: one file per content, named by its hash."""

import contextlib
import os
import re

from openmem_store.layout import Layout, replace
from openmem_store.rows import blob_id, storable

_ID = re.compile(r"[0-9a-f]{16}")


def write(layout: Layout, text: str) -> str:
    """Store `text` and return its blob id. A file that holds something else is written again.

    An existing file is touched: retention must not take one that is about to be named again.
    """
    content = storable(text).encode()
    name = blob_id(text)
    path = layout.blob(name)
    try:
        if path.read_bytes() == content:
            os.utime(path)
            return name
    except FileNotFoundError:
        layout.prepare()
    replace(path, content)
    return name


def read(layout: Layout, blob_id: str) -> str | None:
    """Return the text of a blob; None when the id is not one, or its file is missing or not text."""
    if not _ID.fullmatch(blob_id):
        return None
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return layout.blob(blob_id).read_bytes().decode()
    return None
