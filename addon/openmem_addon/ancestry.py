"""Own where a thread that is new to us comes from: another thread, a state that is lost, a history that was compacted.

What it is, the view it is shown and the rows whose flags it moves follow from that.
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import Executor

from .core import lineage
from .core.identify import Identity
from .core.model import Conversation
from .core.rewrite import Rewrite
from .core.view import Thread
from .storage import Session, Storage


class Ancestry:
    """Asks the states in memory before those on disk. Used on the event loop, under the session's lock."""

    def __init__(self, storage: Storage, workers: Executor) -> None:
        self._storage = storage
        self._workers = workers

    async def inherited(self, session: Session, conversation: Conversation, key: str) -> Thread | None:
        """Return the state of the thread that a new one is a fork of; None where it is none.

        A history that already has a reply was produced under some view: in this session first,
        then in any other.
        """
        if not any(item.kind == "assistant" for item in conversation.items):
            return None
        root = key.rpartition("/")[2]
        state = session.state
        here = list(reversed(state.threads.items()))
        found = await self._matching(conversation, root, here)
        if found is not None:
            state.samples.setdefault(key, dict(state.samples.get(found, {})))
            return state.threads[found]
        others = await self._storage.changed_elsewhere(session)
        by_name = {f"{sid} {other}": thread for sid, other, thread in others}
        found = await self._matching(conversation, root, list(by_name.items()))
        return by_name[found] if found is not None else None

    async def forgotten(self, session: Session, lane: str, root: str, result: Rewrite) -> bool:
        """Return whether a new thread was answered before: its rows are stored, and its state is lost."""
        if session.state.find(lane, root) is not None or not any(row.role == "assistant" for row in result.rows):
            return False
        return await self._storage.leading_known(session, result.rows) > 0

    async def owned(self, session: Session, result: Rewrite, replaced: str | None, root: str) -> int:
        """Return from which of its rows on a new thread says whether they are in context.

        After a compaction the client may begin with the same user turns: they go over to the new thread.
        """
        former = session.state.threads.get(replaced or "")
        if former is not None and replaced is not None and replaced.endswith(f"/{root}"):
            return former.owned
        return await self._storage.stored_elsewhere(session, result.rows)

    async def _matching(
        self, conversation: Conversation, root: str, candidates: Iterable[tuple[str, Thread]]
    ) -> str | None:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._workers, lineage.inherited, conversation, root, candidates)


def replaced(session: Session, identity: Identity, key: str) -> str | None:
    """Return the key of the thread whose client compacted it into this new one."""
    latest = session.state.latest
    if identity.lane not in latest:
        return next((latest[lane] for lane in identity.former if lane in latest), None)
    compacted = identity.compacted or identity.lane in session.compacting
    return latest[identity.lane] if compacted and latest[identity.lane] != key else None
