"""Own the reading of a request: its body taken apart into items, in order."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from openmem_store.owntools import is_own
from openmem_store.rows import Draft, Role

from .. import compress, lifetime, source, texts
from ..calls import Calls
from ..identify import is_wrapper, offers_search
from ..model import USER_KINDS, Call, Conversation, Item, ItemKind, Result, identity
from ..naming import Named
from ..prefix import take_apart
from ..source import ABSENT, present
from .blocks import (
    BLOCK,
    SERVER_USES,
    SIGNED,
    Block,
    content_text,
    decoded,
    is_compressible,
    is_server,
    is_whole_reply,
    loads,
    markers,
    media_tokens,
    row_text,
)

BILLING = "x-anthropic-billing-header:"
"""Opens a system block that Claude Code changes on every request; it must stay first and names nothing."""

_SPEAKING: tuple[ItemKind, ...] = (*USER_KINDS, "assistant")

_Marked = tuple[int, bytes]
"""Index of a message, and the source of a cache marker on it."""


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[msgspec.Raw]
    output_config: msgspec.Raw = ABSENT


class _Tool(msgspec.Struct):
    name: str = ""
    type: str = ""
    defer_loading: bool = False
    cache_control: msgspec.Raw = ABSENT


class Thinking(msgspec.Struct):
    type: str = ""


class _Output(msgspec.Struct):
    format: msgspec.Raw = ABSENT


class _Request(Named, kw_only=True):
    """The top-level fields we read."""

    messages: list[msgspec.Raw]
    model: str | None = None
    system: str | list[msgspec.Raw] | None = None
    tools: list[msgspec.Raw] | None = None
    thinking: Thinking | None = None
    max_tokens: int | None = None
    output_config: _Output | None = None
    output_format: msgspec.Raw = ABSENT
    cache_control: msgspec.Raw = ABSENT


_REQUEST = msgspec.json.Decoder(_Request)

_MESSAGE = msgspec.json.Decoder(_Message)

_TOOL = msgspec.json.Decoder(_Tool)


def parse(body: bytes, known: Conversation | None = None) -> Conversation:
    """Take a request apart; `known` is one before it. Raises NotSplicable where it is not what the wire documents."""
    with source.understood_as("an Anthropic request"):
        return _parse(body, known)


def _parse(body: bytes, known: Conversation | None) -> Conversation:
    taken = take_apart(body, "messages", known, _Reader())
    request, items = _REQUEST.decode(taken.text), taken.items
    blocks = _system_blocks(request)
    system = [block.text for block in blocks if not block.text.startswith(BILLING)]
    shown = [text.replace(texts.STANDING_INSTRUCTION, "") for text in system]
    tools = [_TOOL.decode(tool) for tool in request.tools or ()]
    loaded = [raw for raw, tool in zip(request.tools or (), tools, strict=True) if not tool.defer_loading]
    output = request.output_config.format if request.output_config else ABSENT
    marks = _cache_marks(request, tools, blocks, taken.reader.marked, len(items))
    return Conversation(
        body=body,
        places=taken.places,
        ends=taken.ends,
        plain=taken.plain,
        reader=taken.reader,
        shared=taken.shared,
        totals=taken.totals,
        model=request.model,
        items=items,
        head_chars=sum(map(len, shown)) + sum(len(bytes(tool).decode()) for tool in loaded),
        head_media=0,
        tools=tuple(tool.name for tool in tools),
        teaches=any(map(offers_search, system)) or any(item.teaches for item in items),
        instructed=any(texts.STANDING_INSTRUCTION in text for text in system),
        manual_reasoning=request.thinking is not None and request.thinking.type == "enabled",
        structured=present(output) or present(request.output_format),
        max_tokens=request.max_tokens,
        identity=identity((text for text in system if text != texts.STANDING_INSTRUCTION), items),
        users=request.users(),
        cache_keys=request.cache_keys(),
        cache_marks=tuple(place for place, _ in marks),
        cache_seconds=lifetime.marked(marker for _, marker in marks),
    )


def _system_blocks(request: _Request) -> list[Block]:
    if isinstance(request.system, list):
        return [BLOCK.decode(block) for block in request.system]
    return [Block("text", text=request.system)] if request.system else []


def _cache_marks(
    request: _Request, tools: Sequence[_Tool], system: Sequence[Block], messages: Sequence[_Marked], total: int
) -> list[tuple[str, bytes]]:
    """Return the place and the source of each cache marker, in prefix order."""
    return [
        *(("tools", bytes(tool.cache_control)) for tool in tools if present(tool.cache_control)),
        *(("system", bytes(block.cache_control)) for block in system if present(block.cache_control)),
        *((f"m-{total - index}", marker) for index, marker in messages),
        *((("m-1", bytes(request.cache_control)),) if present(request.cache_control) and total else ()),
    ]


class _Reader:
    """Read messages in order: a result is named by the call before it."""

    def __init__(self) -> None:
        self.names = Calls[str]()
        """Name of the tool of each call."""
        self.marked: list[_Marked] = []
        self._index = -1
        self._previous: ItemKind | None = None
        self._answered = False

    def resumed(self, items: Sequence[Item]) -> "_Reader":
        """Return a reader that stands behind `items`."""
        reader = _Reader()
        reader.names = self.names.before(len(items))
        reader.marked = [mark for mark in self.marked if mark[0] < len(items)]
        reader._index = len(items) - 1
        reader._previous = next((item.kind for item in reversed(items) if item.kind in _SPEAKING), None)
        reader._answered = any(item.kind == "assistant" for item in items)
        return reader

    def item(self, original: bytes, readable: bytes) -> Item:
        self._index += 1
        message = _MESSAGE.decode(readable)
        blocks, raws = decoded(message.content)
        self.marked += [(self._index, marker) for marker in markers(blocks)]
        self._answered = self._answered or message.role == "assistant"
        kind = _kind(message, blocks)
        drafts: list[Draft] = []
        results: list[Result] = []
        signed_chars = weight = 0
        for place, (block, raw) in enumerate(zip(blocks, raws, strict=True)):
            made = self._draft(message.role, block, raw)
            if made is not None:
                if block.type == "tool_result" and is_compressible(block) and not is_own(made.name):
                    results.append(compress.result(place, len(drafts), made.text))
                drafts.append(made)
                if made.kind == "thinking":
                    signed_chars += len(made.text)
            weight += media_tokens(block)
        item = Item(
            source=original,
            kind=kind,
            drafts=tuple(drafts),
            stored=message.role != "system" or self._answered,
            calls=tuple(Call(block.id, block.name) for block in blocks if block.type == "tool_use"),
            answers=tuple(block.tool_use_id for block in blocks if block.type == "tool_result"),
            opens_step=message.role == "assistant" and self._previous != "assistant",
            replies=message.role == "assistant" and is_whole_reply(blocks),
            signed=any(block.type in SIGNED for block in blocks),
            bare=bool(blocks) and all(block.type in SIGNED for block in blocks),
            ends_in_server_tool=message.role == "assistant" and bool(blocks) and is_server(blocks[-1].type),
            loads=tuple(name for block in blocks for name in loads(block)),
            teaches=message.role != "assistant" and _teaches(kind, drafts),
            results=tuple(results),
            chars=sum(_counted(draft) for draft in drafts),
            signed_chars=signed_chars,
            media=weight,
        )
        if kind in _SPEAKING:
            self._previous = kind
        return item

    def _draft(self, role: str, block: Block, raw: bytes) -> Draft | None:
        side: Role = "assistant" if role == "assistant" else "user"
        if block.type == "text":
            return Draft(side, "text", "system" if role == "system" else None, block.text)
        if block.type in SIGNED:
            return Draft("assistant", "thinking", None, block.thinking) if block.thinking.strip() else None
        if block.type == "tool_use" or block.type in SERVER_USES:
            self.names.add(block.id, self._index, block.name)
            return Draft("assistant", "tool_use", block.name, source.compact(bytes(block.input) or b"{}"))
        if block.type == "tool_result" or block.type.endswith("_tool_result"):
            text = content_text(block.content)
            return Draft("tool", "tool_result", self.names.latest(block.tool_use_id), text)
        return Draft(side, "text", "system" if role == "system" else None, row_text(block, raw))


def _kind(message: _Message, blocks: Sequence[Block]) -> ItemKind:
    if message.role == "assistant":
        return "assistant"
    if message.role == "system" and blocks:
        return "system"
    if message.role == "system":
        return "pinned" if present(message.output_config) else "other"  # parameters alone may stand anywhere
    if any(block.type == "tool_result" for block in blocks):
        return "results"
    if not blocks:
        return "other"
    return "wrapper" if all(block.type == "text" and is_wrapper(block.text) for block in blocks) else "turn"


def _teaches(kind: ItemKind, drafts: Sequence[Draft]) -> bool:
    """Return whether a text that the client wrote, not the user or a tool, offers our tools."""
    return any(
        offers_search(draft.text)
        for draft in drafts
        if draft.kind == "text" and (kind == "system" or is_wrapper(draft.text))
    )


def _counted(draft: Draft) -> int:
    return len(draft.text) + (len(draft.name or "") if draft.kind == "tool_use" else 0)
