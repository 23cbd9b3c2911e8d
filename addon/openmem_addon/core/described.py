"""Own what stands in a row for a part that is no text: its type, size and hash, the same on every wire."""

import hashlib

import msgspec

from . import source

_NAMES = {
    "image_url": "image",
    "input_image": "image",
    "computer_screenshot": "image",
    "file": "document",
    "input_file": "document",
}
"""Other wires' names of the same part."""


def described(kind: str, media_type: str, content: bytes) -> str:
    """Return `[<type> <media type> <bytes> bytes sha256:<16 hex>]`; an unknown media type is left out."""
    digest = hashlib.sha256(content).hexdigest()[:16]
    words = (_NAMES.get(kind, kind), media_type, f"{len(content)} bytes", f"sha256:{digest}")
    return f"[{' '.join(word for word in words if word)}]"


def attached(kind: str, inline: str | None, remote: str | None, raw: bytes) -> str:
    """Return what stands for a part given by a data URL or bare base64 (`inline`), or by an address or id.

    `raw` is its source, hashed where it says neither.
    """
    if inline is not None:
        media_type, data = data_url(inline) or ("", inline)
        return described(kind, media_type, data.encode())
    return described(kind, "", without_mark(raw) if remote is None else remote.encode())


def data_url(url: str) -> tuple[str, str] | None:
    """Return media type and base64 text of a data URL, None for any other."""
    if not url.startswith("data:"):
        return None
    head, _, data = url[5:].partition(",")
    return head.partition(";")[0], data


def without_mark(raw: bytes) -> bytes:
    """Return a part's compact source without its cache marker, which moves from request to request."""
    values = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    values.pop("cache_control", None)
    return source.compact(msgspec.json.encode(values)).encode()
