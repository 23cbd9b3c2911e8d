"""Own a whole session layer on a directory of its own: queue, pools and log, as a process has them."""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
from openmem_addon import trimstate
from openmem_addon.core import adapter
from openmem_addon.core.usage import Usage
from openmem_addon.session import Inbound, Outcome, Sessions
from openmem_addon.trimstate import TrimState
from openmem_store.layout import Layout
from openmem_store.queue import WriteQueue
from openmem_store.settings import Settings

from fixtures.provider.wire import Json
from tests.conversations import encode

NOW = datetime(2026, 10, 29, 17, 0, tzinfo=UTC)
AT = "2026-10-29T17:00:00Z"
SID = "s-1"

SMALL: dict[str, Any] = {"trim_tokens": 1000, "compress_tokens": 1000}
"""Limits that a conversation of a few messages reaches."""


class House:
    """One process's sessions. Close it, and open another on the same root, for a restart."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.layout = Layout(root)
        self.layout.prepare()
        self.lines: list[str] = []
        self.now = NOW
        self.queue = WriteQueue(self.layout, version="proxy:0123456789ab", log=self.lines.append)
        self.workers = ThreadPoolExecutor(4)
        self.disk = ThreadPoolExecutor(1)
        self.settings = Settings(root=root, **{**SMALL, **settings})
        self.sessions = Sessions(
            self.settings,
            self.layout,
            self.queue,
            workers=self.workers,
            disk=self.disk,
            log=self.lines.append,
            now=lambda: self.now,
        )

    async def send(
        self,
        request: Json | bytes,
        *,
        sid: str | None = SID,
        headers: Mapping[str, str] | None = None,
        path: str = "/v1/messages",
    ) -> Outcome:
        """Send a request through; the answer is still to come."""
        route = adapter.for_path(path)
        assert route is not None
        named = {"x-claude-code-session-id": sid} if sid is not None else {}
        body = request if isinstance(request, bytes) else encode(request)
        return await self.sessions.handle(Inbound(route, {**named, **(headers or {})}, body))

    async def ask(self, request: Json | bytes, *, usage: Usage | None = None, **more: Any) -> Json:
        """Send a request through, book an answer, and return what was forwarded."""
        outcome = await self.send(request, **more)
        self.answer(outcome, usage)
        return json.loads(outcome.body)

    def answer(self, outcome: Outcome, usage: Usage | None = None) -> None:
        if outcome.ticket is not None:
            self.sessions.booking.answered(outcome.ticket, usage or Usage())

    def refuse(self, outcome: Outcome) -> None:
        assert outcome.ticket is not None
        self.sessions.booking.refused(outcome.ticket)

    async def settle(self, sid: str = SID) -> None:
        """Wait until everything given to the disk so far is there."""
        await asyncio.wrap_future(self.disk.submit(lambda: None))
        await asyncio.wrap_future(self.queue.call(sid, lambda _: None))

    def state(self, sid: str = SID) -> TrimState:
        """Return the state as it is on disk."""
        return trimstate.read(self.layout, sid)

    def select(self, statement: str, sid: str = SID) -> list[tuple[Any, ...]]:
        """Read a session's database; no rows where there is none."""
        path = self.layout.database(sid)
        if not path.exists():
            return []
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(connection.execute(statement))
        finally:
            connection.close()

    def rows(self, sid: str = SID) -> list[tuple[str, str, int]]:
        """Return role, text and in_context of every row."""
        return self.select("SELECT role, text, in_context FROM messages ORDER BY seq", sid)

    def events(self, kind: str, columns: str, sid: str = SID) -> list[tuple[Any, ...]]:
        return self.select(f"SELECT {columns} FROM events WHERE kind = '{kind}' ORDER BY id", sid)

    @contextmanager
    def busy_writer(self, sid: str = SID) -> Iterator[None]:
        """Hold back every write of a session until the block ends."""
        go = threading.Event()
        self.queue.call(sid, lambda _: go.wait())
        try:
            yield
        finally:
            go.set()

    @contextmanager
    def locked(self, sid: str = SID) -> Iterator[None]:
        """Hold a session's database as another program's open transaction does.

        By the same SQLite: two libraries in one process do not see each other's locks.
        """
        connection = apsw.Connection(str(self.layout.database(sid)))
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")
            connection.close()

    def close(self) -> None:
        self.workers.shutdown()
        self.disk.shutdown()
        self.queue.close()
