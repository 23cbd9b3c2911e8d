"""Short ways to say a conversation, and to store it with the program's own writer."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from openmem_store.layout import Layout
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter

AT = "2026-10-29T17:00:00Z"
VERSION = "proxy:0123456789ab"


def said(text: str) -> Draft:
    return Draft("user", "text", None, text)


def replied(text: str) -> Draft:
    return Draft("assistant", "text", None, text)


def called(name: str, text: str) -> Draft:
    return Draft("assistant", "tool_use", name, text)


def returned(name: str | None, text: str) -> Draft:
    return Draft("tool", "tool_result", name, text)


def store(
    layout: Layout,
    sid: str,
    *drafts: Draft,
    dropped: Sequence[int] = (),
    blobs: Mapping[int, str] | None = None,
) -> Path:
    """Store one conversation, rows `dropped` out of context, and return its database."""
    writer = SessionWriter(layout.database(sid), version=VERSION)
    try:
        cut = max(dropped) + 1 if dropped and max(dropped) + 1 < len(drafts) else None
        writer.sync(chain(drafts), dropped=dropped, cut=cut, owned=0, blobs=blobs or {}, at=AT)
    finally:
        writer.close()
    return layout.database(sid)
