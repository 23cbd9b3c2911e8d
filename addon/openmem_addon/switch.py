"""Own what a person switched off while proxies run: a file per session, and one for all, read with every request."""

from typing import Literal

from openmem_store.layout import Layout, replace

Switch = Literal["on", "off", "raw"]
"""`off` nothing new is cut, compressed or instructed; `raw` requests pass as they come, and are not stored."""

_RAW = b"raw\n"


def read(layout: Layout, sid: str | None) -> Switch:
    """Return what holds for a session, its own switch before the one for all, or with None for all. Raises OSError."""
    for path in (layout.off(sid), layout.off(None)):
        try:
            return "raw" if path.read_bytes() == _RAW else "off"
        except (FileNotFoundError, NotADirectoryError):
            continue
    return "on"


def turn(layout: Layout, sid: str | None, switch: Switch) -> bool:
    """Turn one session's switch, or with None the one for all; return whether that changed anything. Raises OSError."""
    path = layout.off(sid)
    if switch == "on":
        present = path.exists()
        path.unlink(missing_ok=True)
        return present
    content = _RAW if switch == "raw" else b"off\n"
    if path.exists() and path.read_bytes() == content:
        return False
    layout.prepare()
    replace(path, content)
    return True
