"""Own the last request of each conversation, so that the next one is read from where they part.

Bounded in bytes. Nothing depends on it but time: what is not here is read anew.
"""

from collections import OrderedDict
from collections.abc import Mapping

import msgspec
from openmem_store.rows import Row

from .core.identify import AGENT_HEADERS, SESSION_HEADERS_FIRST, SESSION_HEADERS_LAST
from .core.model import Conversation

MOST_BYTES = 64 << 20
"""Bodies that are kept, in bytes; what was read of one takes about twice its own size more."""

_NAMES = (*SESSION_HEADERS_FIRST, *SESSION_HEADERS_LAST, *AGENT_HEADERS)

_OPENING = 256
"""Bytes of a body that tell a client's conversations apart where no header does."""


class Former(msgspec.Struct, frozen=True):
    """A request as it was read."""

    conversation: Conversation
    rows: tuple[Row, ...]


class Recent:
    """The former requests, those used last kept longest. Used on the event loop only."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[object, Former] = OrderedDict()

    @staticmethod
    def name(headers: Mapping[str, str], body: bytes) -> object:
        """Return what a conversation is looked up by; a wrong guess costs time, never truth."""
        return (*(headers.get(name) for name in _NAMES), body[:_OPENING])

    def get(self, name: object) -> Former | None:
        return self._kept.get(name)

    def keep(self, name: object, former: Former) -> None:
        """Keep a request in place of the one before it. One larger than the bound is not kept."""
        self._drop(name)
        size = len(former.conversation.body)
        if size > self._most:
            return
        self._kept[name] = former
        self._bytes += size
        while self._bytes > self._most:
            self._drop(next(iter(self._kept)))

    def _drop(self, name: object) -> None:
        former = self._kept.pop(name, None)
        if former is not None:
            self._bytes -= len(former.conversation.body)
