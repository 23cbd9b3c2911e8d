"""Own the Anthropic Messages wire: a body taken apart into items, and put together again under a view.

https://platform.claude.com/docs/en/api/messages
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from openmem_store.owntools import is_own
from openmem_store.rows import Draft, Role

from . import compress, lifetime, media, source, texts
from .calls import Calls
from .described import described, without_mark
from .identify import is_wrapper, offers_search
from .model import USER_KINDS, Call, Conversation, Item, ItemKind, Result, identity
from .naming import Named
from .prefix import take_apart
from .rendering import Rendering
from .source import Span
from .usage import Usage

BILLING = "x-anthropic-billing-header:"
"""Opens a system block that Claude Code changes on every request; it must stay first and names nothing."""

_ABSENT = msgspec.Raw(b"")
"""Default of a field that is kept as source."""

_SIGNED = ("thinking", "redacted_thinking")
_SERVER_USES = ("server_tool_use", "mcp_tool_use")

_TEXTUAL = ("search_result", "compaction")
"""Blocks that hold a text, or parts, under `content`."""

_FOUND_BLOCKS = ("search_result", "web_search_result")
"""Blocks whose title and address the model reads."""

_Marked = tuple[int, bytes]
"""Index of a message, and the source of a cache marker on it."""

_SPEAKING: tuple[ItemKind, ...] = (*USER_KINDS, "assistant")


class _Source(msgspec.Struct):
    type: str = ""
    media_type: str = ""
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: msgspec.Raw = _ABSENT


class _Block(msgspec.Struct):
    """The fields we read of any content block; the rest stays in its source."""

    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    tool_use_id: str = ""
    tool_name: str = ""
    title: str | None = None
    url: str | None = None
    input: msgspec.Raw = _ABSENT
    content: msgspec.Raw = _ABSENT
    source: msgspec.Raw = _ABSENT
    cache_control: msgspec.Raw = _ABSENT


class _Found(msgspec.Struct):
    """What the provider's own tool search answers with."""

    tool_references: list[msgspec.Raw] = []


class _Message(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: str | list[msgspec.Raw]
    output_config: msgspec.Raw = _ABSENT


class _Tool(msgspec.Struct):
    name: str = ""
    type: str = ""
    defer_loading: bool = False
    cache_control: msgspec.Raw = _ABSENT


class _Thinking(msgspec.Struct):
    type: str = ""


class _Output(msgspec.Struct):
    format: msgspec.Raw = _ABSENT


class _Request(Named, kw_only=True):
    """The top-level fields we read."""

    messages: list[msgspec.Raw]
    model: str | None = None
    system: str | list[msgspec.Raw] | None = None
    tools: list[msgspec.Raw] | None = None
    thinking: _Thinking | None = None
    max_tokens: int | None = None
    output_config: _Output | None = None
    output_format: msgspec.Raw = _ABSENT
    cache_control: msgspec.Raw = _ABSENT


VALVE_BETA = "thinking-binding-controls-2026-08-01"
"""Value of the `anthropic-beta` header without which the valve is refused."""

_VALVE = b'{"prefix_mismatch_behavior":"drop_block"}'
"""https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks"""

_REQUEST = msgspec.json.Decoder(_Request)
_THINKING = msgspec.json.Decoder(_Thinking)
_MESSAGE = msgspec.json.Decoder(_Message)
_BLOCK = msgspec.json.Decoder(_Block)
_CONTENT = msgspec.json.Decoder(str | list[msgspec.Raw])
_TOOL = msgspec.json.Decoder(_Tool)
_SOURCE = msgspec.json.Decoder(_Source)
_FOUND = msgspec.json.Decoder(_Found)


# --- reading -----------------------------------------------------------------------------------------------


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
    output = request.output_config.format if request.output_config else _ABSENT
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
        structured=_present(output) or _present(request.output_format),
        max_tokens=request.max_tokens,
        identity=identity((text for text in system if text != texts.STANDING_INSTRUCTION), items),
        users=request.users(),
        cache_keys=request.cache_keys(),
        cache_marks=tuple(place for place, _ in marks),
        cache_seconds=lifetime.marked(marker for _, marker in marks),
    )


def _system_blocks(request: _Request) -> list[_Block]:
    if isinstance(request.system, list):
        return [_BLOCK.decode(block) for block in request.system]
    return [_Block("text", text=request.system)] if request.system else []


def _cache_marks(
    request: _Request, tools: Sequence[_Tool], system: Sequence[_Block], messages: Sequence[_Marked], total: int
) -> list[tuple[str, bytes]]:
    """Return the place and the source of each cache marker, in prefix order."""
    return [
        *(("tools", bytes(tool.cache_control)) for tool in tools if _present(tool.cache_control)),
        *(("system", bytes(block.cache_control)) for block in system if _present(block.cache_control)),
        *((f"m-{total - index}", marker) for index, marker in messages),
        *((("m-1", bytes(request.cache_control)),) if _present(request.cache_control) and total else ()),
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
        blocks, raws = _blocks(message.content)
        self.marked += [(self._index, marker) for marker in _marks(blocks)]
        self._answered = self._answered or message.role == "assistant"
        kind = _kind(message, blocks)
        drafts: list[Draft] = []
        results: list[Result] = []
        signed_chars = weight = 0
        for place, (block, raw) in enumerate(zip(blocks, raws, strict=True)):
            made = self._draft(message.role, block, raw)
            if made is not None:
                if block.type == "tool_result" and _compressible(block) and not is_own(made.name):
                    results.append(compress.result(place, len(drafts), made.text))
                drafts.append(made)
                if made.kind == "thinking":
                    signed_chars += len(made.text)
            weight += _media(block)
        item = Item(
            source=original,
            kind=kind,
            drafts=tuple(drafts),
            stored=message.role != "system" or self._answered,
            calls=tuple(Call(block.id, block.name) for block in blocks if block.type == "tool_use"),
            answers=tuple(block.tool_use_id for block in blocks if block.type == "tool_result"),
            opens_step=message.role == "assistant" and self._previous != "assistant",
            replies=message.role == "assistant" and _is_whole_reply(blocks),
            signed=any(block.type in _SIGNED for block in blocks),
            bare=bool(blocks) and all(block.type in _SIGNED for block in blocks),
            ends_in_server_tool=message.role == "assistant" and bool(blocks) and _is_server(blocks[-1].type),
            loads=tuple(name for block in blocks for name in _loads(block)),
            teaches=message.role != "assistant" and _teaches(kind, drafts),
            results=tuple(results),
            chars=sum(_counted(draft) for draft in drafts),
            signed_chars=signed_chars,
            media=weight,
        )
        if kind in _SPEAKING:
            self._previous = kind
        return item

    def _draft(self, role: str, block: _Block, raw: bytes) -> Draft | None:
        side: Role = "assistant" if role == "assistant" else "user"
        if block.type == "text":
            return Draft(side, "text", "system" if role == "system" else None, block.text)
        if block.type in _SIGNED:
            return Draft("assistant", "thinking", None, block.thinking) if block.thinking.strip() else None
        if block.type == "tool_use" or block.type in _SERVER_USES:
            self.names.add(block.id, self._index, block.name)
            return Draft("assistant", "tool_use", block.name, source.compact(bytes(block.input) or b"{}"))
        if block.type == "tool_result" or block.type.endswith("_tool_result"):
            text = _content_text(block.content)
            return Draft("tool", "tool_result", self.names.latest(block.tool_use_id), text)
        return Draft(side, "text", "system" if role == "system" else None, _described(block, raw))


def _present(value: msgspec.Raw) -> bool:
    return bytes(value) not in (b"", b"null")


def _blocks(content: str | list[msgspec.Raw]) -> tuple[list[_Block], list[bytes]]:
    if isinstance(content, str):
        return [_Block("text", text=content)], [b""]
    return [_BLOCK.decode(raw) for raw in content], [bytes(raw) for raw in content]


def _marks(blocks: Sequence[_Block]) -> list[bytes]:
    """Return the source of a message's cache markers, those on the parts of a tool result included."""
    inner = (
        _BLOCK.decode(raw)
        for block in blocks
        if block.type == "tool_result" and b"cache_control" in bytes(block.content)
        for raw in _parts(block.content)
    )
    return [bytes(one.cache_control) for one in (*blocks, *inner) if _present(one.cache_control)]


def _kind(message: _Message, blocks: Sequence[_Block]) -> ItemKind:
    if message.role == "assistant":
        return "assistant"
    if message.role == "system" and blocks:
        return "system"
    if message.role == "system":
        return "pinned" if _present(message.output_config) else "other"  # parameters alone may stand anywhere
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


def _is_server(kind: str) -> bool:
    return kind in _SERVER_USES or (kind.endswith("_tool_result") and kind != "tool_result")


def _is_whole_reply(blocks: Sequence[_Block]) -> bool:
    """Return whether an agent's message calls no tool and answers no server tool of a message before it.

    A paused turn is resumed in a second message: its result may not go out without the use in the first.
    """
    used = {block.id for block in blocks if block.type in _SERVER_USES}
    return not any(
        block.type == "tool_use" or (block.type.endswith("_tool_result") and block.tool_use_id not in used)
        for block in blocks
    )


def _parts(content: msgspec.Raw) -> list[msgspec.Raw]:
    """Return the parts of a content; a string, an object or nothing has none."""
    value = _content(content)
    return value if isinstance(value, list) else []


def _content(content: msgspec.Raw) -> str | list[msgspec.Raw] | None:
    """Return a tool result's content, None for an object, which some server tools answer with."""
    if not _present(content):
        return ""
    return None if bytes(content)[:1] == b"{" else _CONTENT.decode(content)


def _loads(block: _Block) -> list[str]:
    """Return the tools a result loads: the client's own search answers with parts, the provider's with an object."""
    if not block.type.endswith("tool_result") or b"tool_reference" not in bytes(block.content):
        return []
    raws = _parts(block.content)
    if _content(block.content) is None:
        raws = _FOUND.decode(block.content).tool_references
    parts = [_BLOCK.decode(raw) for raw in raws]
    return [part.tool_name for part in parts if part.type == "tool_reference"]


def _content_text(content: msgspec.Raw) -> str:
    value = _content(content)
    if value is None:
        return source.compact(bytes(content))
    if isinstance(value, str):
        return value
    parts = [(_BLOCK.decode(raw), bytes(raw)) for raw in value]
    return "\n".join(part.text if part.type == "text" else _described(part, raw) for part, raw in parts)


def _compressible(block: _Block) -> bool:
    """Return whether a tool result is text alone: nothing else may be quoted or replaced."""
    value = _content(block.content)
    return isinstance(value, str) or (value is not None and all(_BLOCK.decode(raw).type == "text" for raw in value))


def _described(block: _Block, raw: bytes) -> str:
    """Return a part that is no text: its type, size and hash, under what it is called and where it is from.

    The text that a part holds inside stands for the part.
    """
    where = _SOURCE.decode(block.source) if bytes(block.source)[:1] == b"{" else _Source()  # or an address
    if where.type == "text" and where.data is not None:
        return where.data
    inside = ""
    if where.type == "content" or block.type in _TEXTUAL:
        inside = _content_text(where.content if where.type == "content" else block.content)
    given = where.data or where.url or where.file_id
    inside = inside or described(block.type, where.media_type, given.encode() if given else without_mark(raw))
    return "\n".join([*_heading(block), inside])


def _heading(block: _Block) -> list[str]:
    """Return title and address of a block that something was found by."""
    if block.type not in _FOUND_BLOCKS:
        return []
    address = block.url
    if bytes(block.source)[:1] == b'"':
        address = msgspec.json.decode(block.source, type=str)
    return [words for words in (block.title, address) if words]


def _media(block: _Block) -> int:
    if block.type == "tool_result":
        return sum(_media(_BLOCK.decode(raw)) for raw in _parts(block.content))
    if block.type not in ("image", "document") or not _present(block.source):
        return 0
    where = _SOURCE.decode(block.source)
    if block.type == "image":
        return media.image_tokens(where.data)
    return 0 if where.type in ("text", "content") else media.document_tokens(where.data)


def _counted(draft: Draft) -> int:
    return len(draft.text) + (len(draft.name or "") if draft.kind == "tool_use" else 0)


# --- writing ---------------------------------------------------------------------------------------


def render(conversation: Conversation, rendering: Rendering) -> bytes:
    """Put a request together under a view: what the view does not touch is the client's bytes."""
    body, places = conversation.body, conversation.places
    values: dict[Span, bytes] = {}
    if rendering.changes_items(len(conversation.items)):
        values[places["messages"]] = source.array(_messages(conversation, rendering))
    if rendering.valve and "thinking" in places:
        start, stop = places["thinking"]
        values[start, stop] = _valved(body[start:stop])
    if rendering.instruct and not conversation.instructed:
        block = msgspec.json.encode({"type": "text", "text": texts.STANDING_INSTRUCTION})
        if "system" not in places:
            return source.with_member(source.replaced(body, values), "system", source.array([block]))
        start, stop = places["system"]
        values[start, stop] = _appended(body[start:stop], source.readable(body[start:stop]), block)
    return source.replaced(body, values) if values else body


def _valved(thinking: bytes) -> bytes:
    """Return the `thinking` parameter with the provider's valve open, where reasoning is on and its fields allow it."""
    if not thinking.startswith(b"{") or _THINKING.decode(thinking).type not in ("adaptive", "enabled"):
        return thinking
    return source.with_member(source.without_member(thinking, "block_binding"), "block_binding", _VALVE)


def _appended(system: bytes, readable: bytes, block: bytes) -> bytes:
    """Return `system` as a list that ends with our block; a string becomes its first block."""
    if readable.startswith(b"["):
        return source.array([*(system[a:b] for a, b in source.elements(readable)), block])
    if readable in (b"null", b'""'):
        return source.array([block])
    return source.array([_text_block(system), block])


def _text_block(text: bytes) -> bytes:
    """Return a text block around a JSON string, its escapes as they are."""
    return b'{"type":"text","text":' + text + b"}"


def _messages(conversation: Conversation, rendering: Rendering) -> list[bytes]:
    items = conversation.items
    moved = [items[index].source for index in rendering.moved]
    written: list[bytes] = []
    placing = False
    for index in rendering.kept:
        text = _message(items[index], index, rendering)
        if placing and items[index].kind != "pinned":
            placing = False
            if items[index].kind == "system":
                text = _merged([*moved, text])
            else:
                written.append(_merged(moved))
        written.append(text)
        placing = placing or index == rendering.moved_after
    if placing:
        written.append(_merged(moved))
    return written


def _merged(messages: Sequence[bytes]) -> bytes:
    """Return system messages as one: the parts of all, and of each parameter beside them the last value."""
    parts = [part for message in messages for part in _parts_of(message)]
    text = _with_parts(messages[-1], parts)
    known = source.members(source.readable(text)).keys()
    for message in reversed(messages[:-1]):
        for key, (start, stop) in source.members(source.readable(message)).items():
            if key not in known:
                text = source.with_member(text, key, message[start:stop])
        known = source.members(source.readable(text)).keys()
    return text


def _message(item: Item, index: int, rendering: Rendering) -> bytes:
    """Return one message under a view."""
    text = item.source
    compressed = rendering.compressed.get(index)
    noted = index == rendering.noted and bool(rendering.note)
    stripped = index in rendering.stripped
    if not (compressed or noted or stripped):
        return text
    parts = _parts_of(text)
    if compressed:
        parts = [_compressed(part, compressed[i]) if i in compressed else part for i, part in enumerate(parts)]
    if stripped:
        parts = [part for part in parts if _BLOCK.decode(source.readable(part)).type not in _SIGNED]
    if index in rendering.emptied:
        parts = [msgspec.json.encode({"type": "text", "text": texts.NO_TEXT})]
    if noted:
        parts = [msgspec.json.encode({"type": "text", "text": rendering.note}), *parts]
    return _with_parts(text, parts)


def _parts_of(message: bytes) -> list[bytes]:
    """Return the source of each content block; a string is one text block."""
    readable = source.readable(message)
    start, stop = source.members(readable)["content"]
    if readable[start:stop].startswith(b"["):
        return [message[start + a : start + b] for a, b in source.elements(readable[start:stop])]
    return [_text_block(message[start:stop])]


def _with_parts(message: bytes, parts: list[bytes]) -> bytes:
    place = source.members(source.readable(message))["content"]
    return source.replaced(message, {place: source.array(parts)})


def _compressed(part: bytes, form: str) -> bytes:
    """Return a tool result block that holds the compressed form, in the shape its content had."""
    readable = source.readable(part)
    start, stop = source.members(readable)["content"]
    value = msgspec.json.encode(form)
    if readable[start:stop].startswith(b"["):
        inner = [part[start + a : start + b] for a, b in source.elements(readable[start:stop])]
        last = source.readable(inner[-1])
        value = source.array([source.replaced(inner[-1], {source.members(last)["text"]: value})])
    return source.replaced(part, {(start, stop): value})


# --- usage -----------------------------------------------------------------------------------------


class _Counts(msgspec.Struct):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None
    iterations: msgspec.Raw = _ABSENT


class _Iteration(msgspec.Struct):
    """One sampling of an answer that took several, as server tools and the provider's own compaction do."""

    type: str = ""
    input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class _Reply(msgspec.Struct):
    usage: _Counts | None = None


class _Event(msgspec.Struct):
    """A whole answer, or one event of a stream."""

    type: str = ""
    message: _Reply | None = None
    usage: _Counts | None = None


_EVENT = msgspec.json.Decoder(_Event)
_ITERATIONS = msgspec.json.Decoder(list[_Iteration])


def usage(payload: bytes) -> Usage | None:
    """Return what one event, or one whole answer, reports; None where it reports nothing.

    The counts of a stream are cumulative: the tap keeps the last one reported of each.
    """
    event = _EVENT.decode(payload)
    counts = event.usage or (event.message.usage if event.message else None)
    final = event.type in ("message_stop", "message")
    if counts is None:
        return Usage(final=True) if final else None
    return Usage(
        input_tokens=counts.input_tokens,
        cache_read_tokens=counts.cache_read_input_tokens,
        cache_creation_tokens=counts.cache_creation_input_tokens,
        output_tokens=counts.output_tokens,
        last_prompt=_last_prompt(counts.iterations),
        final=final,
    )


def _last_prompt(iterations: msgspec.Raw) -> int | None:
    """Return the prompt of the last sampling: it is the live context, their sum only what is paid."""
    try:
        every = _ITERATIONS.decode(iterations) if _present(iterations) else []
    except msgspec.MsgspecError:
        return None  # a detail we read for its worth; the counts beside it are still good
    last = next((one for one in reversed(every) if one.type == "message"), None)
    return last and last.input_tokens + last.cache_read_input_tokens + last.cache_creation_input_tokens
