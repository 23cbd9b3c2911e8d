"""Own `sessions/<sid>.json`: what an agent's hook tells about its session."""

import msgspec

from openmem_store import sid
from openmem_store.layout import Layout, replace
from openmem_store.rows import storable


class Registration(msgspec.Struct, frozen=True):
    """One session as its agent registered it. Fields a hook left out, or null, are None."""

    session_id: str
    """As the agent gave it; sanitised, it names the file."""
    agent: str | None = None
    cwd: str | None = None
    bank: str | None = None
    """Memory bank to recall from; None means no recall."""
    registered_at: str | None = None
    """ISO 8601 UTC."""


_DECODER = msgspec.json.Decoder(Registration)
_MOST = 1 << 20
"""Bytes of a registration; a larger file is not one."""


def read(layout: Layout, session: str) -> Registration | None:
    """Return the registration of a sanitised id; None when there is none or the file is no registration."""
    try:
        with layout.registration(session).open("rb") as file:
            return _DECODER.decode(file.read(_MOST))
    except (OSError, ValueError):  # msgspec's errors and those of UTF-8 are ValueErrors
        return None


def write(layout: Layout, registration: Registration) -> None:
    """Write a registration under its sanitised id. Raises ValueError for an id of which nothing is left."""
    session = sid.sanitize(registration.session_id)
    if session is None:
        raise ValueError("session_id is empty: a registration needs the agent's session id")
    fields = msgspec.structs.asdict(registration)
    # A working directory may hold bytes that are not UTF-8, which Python keeps as lone surrogates.
    safe = {name: storable(value) if isinstance(value, str) else value for name, value in fields.items()}
    layout.prepare()
    replace(layout.registration(session), msgspec.json.encode(safe) + b"\n")
