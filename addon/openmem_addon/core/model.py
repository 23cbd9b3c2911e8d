"""Own the values between the wire formats and the planner: a conversation as items, none of a provider's shape."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Literal

import msgspec
from openmem_store.rows import Draft, fingerprint

ItemKind = Literal["pinned", "system", "turn", "wrapper", "results", "assistant", "other"]
"""What an item is to the planner.

`turn` a real user turn; `wrapper` a user message wholly inside a client's wrapper tags;
`results` holds tool results (and perhaps text beside them); `pinned` stays in every view;
`system` a mid-conversation system message; `other` travels with the group before it.
"""

USER_KINDS: tuple[ItemKind, ...] = ("turn", "wrapper", "results")
"""Kinds that a provider reads as the user's side."""


class Call(msgspec.Struct, frozen=True):
    """One tool call of an assistant item."""

    id: str
    name: str


class Result(msgspec.Struct, frozen=True):
    """One tool result that could be shown compressed."""

    place: int
    """Index of the content block within its item."""
    draft: int
    """Index of its draft within the item's drafts."""
    text: str
    blob: str
    """Blob id of a text that is long enough to be compressed; empty for a shorter one."""


class Item(msgspec.Struct, frozen=True):
    """One wire message (Anthropic, Chat) or item (Responses)."""

    source: bytes
    """The bytes the client sent."""
    kind: ItemKind
    drafts: tuple[Draft, ...]
    stored: bool
    """Whether its drafts become rows; pinned messages' do not."""
    calls: tuple[Call, ...]
    answers: tuple[str, ...]
    """Ids of the calls whose results it holds."""
    opens_step: bool
    """Whether a tool exchange begins here."""
    replies: bool
    """An agent message without tool calls that stands by itself."""
    signed: bool
    """Holds signed reasoning."""
    bare: bool
    """Holds nothing but signed reasoning."""
    ends_in_server_tool: bool
    """An assistant message whose last block is a server tool's use or result."""
    loads: tuple[str, ...]
    """Names of the deferred tools it loads."""
    teaches: bool
    """Its text offers our tools (system messages and wrappers only)."""
    results: tuple[Result, ...]
    chars: int
    """Code points a provider counts: text, inputs, results; no signatures, no encrypted content."""
    signed_chars: int
    """Those of them that leave with signed reasoning."""
    media: int
    """Tokens of images and documents by the provider's rule."""
    reasons: bool = False
    """An item of reasoning alone; the provider wants what it led to behind it, and it before that."""


class Totals(msgspec.Struct, frozen=True):
    """Sums over the first items of a conversation, one more than there are items, the first 0."""

    rows: tuple[int, ...]
    chars: tuple[int, ...]
    media: tuple[int, ...]
    heavy: tuple[int, ...]
    """Indexes of the items with a result long enough to be compressed."""


NO_TOTALS = Totals((0,), (0,), (0,), ())


def totals(items: Sequence[Item], known: Totals = NO_TOTALS, shared: int = 0) -> Totals:
    """Return the sums over items, of which those of the first `shared` are known."""
    added = items[shared:]
    return Totals(
        rows=_sums(known.rows[: shared + 1], (len(item.drafts) if item.stored else 0 for item in added)),
        chars=_sums(known.chars[: shared + 1], (item.chars for item in added)),
        media=_sums(known.media[: shared + 1], (item.media for item in added)),
        heavy=(
            *known.heavy[: bisect_left(known.heavy, shared)],
            *(index for index, item in enumerate(added, shared) if any(result.blob for result in item.results)),
        ),
    )


def _sums(known: tuple[int, ...], added: Iterable[int]) -> tuple[int, ...]:
    return (*known[:-1], *accumulate(added, initial=known[-1]))


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """One request, taken apart."""

    body: bytes
    """As the client sent it."""
    places: Mapping[str, tuple[int, int]]
    """Where each member's value stands in it."""
    ends: tuple[int, ...]
    """Where each item ends in it."""
    plain: bool
    """It decodes as it is: no lone surrogate was replaced to read it."""
    reader: object
    """What read the items, to go on behind any of them with the next request."""
    shared: int
    """How many of the first items are those of the request that was known."""
    totals: Totals
    model: str | None
    items: tuple[Item, ...]
    head_chars: int
    """Code points of system and tools, without our instruction."""
    head_media: int
    tools: tuple[str, ...]
    """Names of the tools the request offers."""
    teaches: bool
    """A system text, mid-conversation message or reminder offers our tools."""
    instructed: bool
    """The system text already holds the standing instruction."""
    manual_reasoning: bool
    """The provider does not check what reasoning is bound to, but demands it at the head of a running tool loop."""
    structured: bool
    """The answer must follow a schema: a title or another side question, when no tool is offered."""
    max_tokens: int | None
    identity: str
    """What names a session without an id, as `identity` makes it."""
    users: tuple[str, ...]
    """`metadata.user_id` of the request, then of the original that a gateway passes along."""
    cache_keys: tuple[str, ...]
    """`prompt_cache_key`, likewise."""
    cache_marks: tuple[str, ...] | None
    """Places of the incoming `cache_control` markers in prefix order; None on wires without any."""
    cache_seconds: int
    """Longest time for which the provider may keep this request's prefix; 0 where it asks for no cache."""
    previous: str | None = None
    """The response this request continues: its items are only what is new."""
    kept: bool = False
    """The provider keeps the response, so that a later request may continue it."""
    compacts: bool = False
    """The request itself asks the provider to compact the history."""

    def offers_tools(self) -> bool:
        """Return whether the agent can look up what leaves its context."""
        return self.teaches or any(is_search_tool(name) for name in self.tools)


def identity(system: Iterable[str], items: Sequence[Item]) -> str:
    """Return what names a session without an id: system texts, then the first user message's texts."""
    first = next((item for item in items if item.kind in ("turn", "wrapper")), None)
    return "\n".join((*system, *(draft.text for draft in (first.drafts if first else ()))))


def is_search_tool(name: str) -> bool:
    """Return whether a tool is our search, under whatever prefix the client gave it."""
    return name.endswith("smart_compact_search")


def mark(item: Item) -> str:
    """Return what identifies an item apart from its place: its texts and the ids of its calls, without reasoning.

    Clients drop reasoning after a refused signature, and some clear an old result where it stands; the item
    is still the same one. The ids tell apart two answers to the same words, which a rewind brings about.
    """
    said = [
        [draft.role, draft.kind, draft.name, "" if item.answers and draft.kind == "tool_result" else draft.text]
        for draft in item.drafts
        if draft.kind != "thinking"
    ]
    return fingerprint([said, [call.id for call in item.calls], item.answers])
