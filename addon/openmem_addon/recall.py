"""Own what is asked of a memory provider over HTTP when a trim makes a new cut. Hindsight's API.

A provider that is slow or gone costs a trim its time limit once, and is then left alone for a while: a request
must not wait for what only adds to it. One that answers at once that it cannot, as for a bank that is not there,
is asked again by the next trim.
"""

import asyncio
import re
import ssl
import time
from collections.abc import Callable
from urllib.parse import quote

import httpx
import msgspec
from openmem_store.rows import storable
from openmem_store.settings import Settings

from .failopen import Log, failure

REST_S = 60.0
"""Seconds for which a provider that failed is not asked again."""

LONGEST_QUERY = 2_000
"""Code points of the cut turn's text that are asked with; a pasted file is no question."""

MOST_TOKENS = 4_096
"""Tokens of memory that are asked for; what the frame has no room for is cut anyway."""

BUSY = ("pending", "processing")
"""States of an operation that is not done."""

INGEST = ("retain", "batch_retain", "file_convert_retain", "import_documents", "import_bank")
"""Operations that bring memories; the others (consolidation, webhooks) make none wait."""

MOST_OPERATIONS = 100
"""The most that the provider lists at once."""

_WORD = re.compile(r"\w")
"""A text without one is no question to the provider, which refuses it."""


class Recalled(msgspec.Struct, frozen=True):
    """What a provider knows."""

    text: str = ""
    """Its memories, one a line; empty where it has none, or recall is off."""
    ingesting: bool = False
    """It has not read everything it was given yet."""


class _Memory(msgspec.Struct):
    text: str = ""


class _Answer(msgspec.Struct):
    results: list[_Memory] = []


class _Operation(msgspec.Struct):
    task_type: str = INGEST[0]


class _Operations(msgspec.Struct):
    operations: list[_Operation] = []

    @property
    def ingest(self) -> bool:
        return any(each.task_type in INGEST for each in self.operations)


class Recall:
    """One provider. Used on the event loop."""

    def __init__(self, settings: Settings, log: Log, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._log = log
        self._clock = clock
        self._rests_until = 0.0
        self._roots: ssl.SSLContext | None = None

    async def ask(self, bank: str, query: str) -> Recalled:
        """Return what a bank knows of a text, within the time limit. Never raises: a failure is one line."""
        if self._clock() < self._rests_until:
            return Recalled()
        roots = await self._trusted()
        try:
            async with asyncio.timeout(self._settings.recall_timeout_s):
                return await self._asked(bank, query, roots)
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            if status >= 500:
                self._rests_until = self._clock() + REST_S
            self._log(f"openmem-context: the memory provider answered {status}; a trim goes without recalled memory")
            return Recalled()
        except (httpx.HTTPError, httpx.InvalidURL, msgspec.MsgspecError, UnicodeDecodeError, TimeoutError) as error:
            self._rests_until = self._clock() + REST_S
            self._log(f"{failure(error)}; a trim goes without recalled memory")
            return Recalled()

    async def _asked(self, bank: str, query: str, roots: ssl.SSLContext) -> Recalled:
        key = self._settings.recall_api_key
        headers = {"authorization": f"Bearer {key}"} if key else {}
        base = f"{self._settings.recall_url}/v1/default/banks/{quote(bank, safe='')}"
        query = storable(query[:LONGEST_QUERY])
        asks = self._settings.recall and _WORD.search(query) is not None
        # The provider is on this machine or in this network: a proxy of the environment may be ours.
        async with httpx.AsyncClient(headers=headers, verify=roots, trust_env=False, timeout=None) as client:
            busy = [
                client.get(f"{base}/operations", params={"status": state, "limit": MOST_OPERATIONS}) for state in BUSY
            ]
            sought = {"query": query, "max_tokens": MOST_TOKENS}
            recall = [client.post(f"{base}/memories/recall", json=sought)] if asks else []
            answers = await asyncio.gather(*busy, *recall)
        for answer in answers:
            answer.raise_for_status()
        operations = [msgspec.json.decode(answer.content, type=_Operations) for answer in answers[: len(BUSY)]]
        memories = [msgspec.json.decode(answer.content, type=_Answer) for answer in answers[len(BUSY) :]]
        texts = [memory.text for answer in memories for memory in answer.results if memory.text]
        return Recalled(storable("\n".join(texts)), any(each.ingest for each in operations))

    async def _trusted(self) -> ssl.SSLContext:
        """Return the public roots, read once and aside: it takes a tenth of a second, in which no request would move.

        Over plain HTTP there is nothing to verify, and no root is read.
        """
        if self._roots is None:
            if self._settings.recall_url.startswith("https:"):
                self._roots = await asyncio.to_thread(httpx.create_ssl_context, trust_env=False)
            else:
                self._roots = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return self._roots
