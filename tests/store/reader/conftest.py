"""Session files for the reader's tests, written by the program's own writer."""

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import ClientSession, StdioServerParameters, stdio_client

from openmem_store import rows
from openmem_store.layout import Layout
from openmem_store.writer import SessionWriter

AT = "2026-10-29T17:00:00Z"

Message = tuple[str, str, str | None, str]
"""Role, kind, tool name, text."""

Store = Callable[..., Path]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "state" / "context")
    layout.prepare()
    return layout


@pytest.fixture
def store(layout: Layout) -> Store:
    """Return a function that stores a conversation and returns its database."""

    def write(
        sid: str, messages: Sequence[Message], *, dropped: Sequence[int] = (), blobs: dict[int, str] | None = None
    ) -> Path:
        chained = rows.chain(rows.Draft(*message) for message in messages)  # type: ignore[arg-type]
        writer = SessionWriter(layout.database(sid), version="proxy:0123456789ab")
        try:
            writer.sync(
                chained, dropped=dropped, cut=max(dropped) + 1 if dropped else None, owned=0, blobs=blobs or {}, at=AT
            )
        finally:
            writer.close()
        return layout.database(sid)

    return write


def said(text: str) -> Message:
    return ("user", "text", None, text)


def replied(text: str) -> Message:
    return ("assistant", "text", None, text)


def called(name: str, text: str) -> Message:
    return ("assistant", "tool_use", name, text)


def returned(name: str | None, text: str) -> Message:
    return ("tool", "tool_result", name, text)
