"""Own the OpenAI Chat Completions wire: a body taken apart into items, and put together again under a view.

https://platform.openai.com/docs/api-reference/chat
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from openmem_store.owntools import is_own
from openmem_store.rows import Draft, Role

from . import compress, lifetime, media, source, texts
from .calls import Calls
from .described import attached, data_url, described, without_mark
from .identify import is_wrapper, offers_search
from .model import Call, Conversation, Item, ItemKind, Result, identity
from .naming import Named
from .prefix import take_apart
from .rendering import Rendering
from .source import Span
from .usage import Usage

_ABSENT = msgspec.Raw(b"")

_PINNED = ("system", "developer")

_LEGACY = "function:"
"""Opens the id we give to a call of the legacy form, which has none."""

_SIGNED = "thinking_blocks"
"""A gateway's field for Anthropic's signed blocks; `reasoning_content` is unsigned text and stays."""


class _Function(msgspec.Struct):
    name: str = ""
    arguments: str = ""


class _Custom(msgspec.Struct):
    name: str = ""
    input: str = ""


class _ToolCall(msgspec.Struct):
    id: str = ""
    function: _Function | None = None
    custom: _Custom | None = None


class _ThinkingBlock(msgspec.Struct):
    type: str = ""
    thinking: str = ""


class _Url(msgspec.Struct):
    url: str = ""
    detail: str = ""


class _Audio(msgspec.Struct):
    data: str = ""
    format: str = ""


class _File(msgspec.Struct):
    file_data: str | None = None
    file_id: str | None = None


class _Part(msgspec.Struct):
    """The fields we read of a content part."""

    type: str
    text: str = ""
    refusal: str = ""
    image_url: _Url | None = None
    input_audio: _Audio | None = None
    file: _File | None = None


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[msgspec.Raw] | None = None
    name: str | None = None
    tool_calls: list[_ToolCall] | None = None
    function_call: _Function | None = None
    tool_call_id: str = ""
    reasoning_content: str | None = None
    thinking_blocks: list[_ThinkingBlock] | None = None


class _Tool(msgspec.Struct):
    function: _Function | None = None
    custom: _Custom | None = None


class _Format(msgspec.Struct):
    type: str = ""


class _Request(Named, kw_only=True):
    """The top-level fields we read."""

    messages: list[msgspec.Raw]
    model: str | None = None
    tools: list[msgspec.Raw] | None = None
    functions: list[msgspec.Raw] | None = None
    response_format: _Format | None = None
    thinking: _Format | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    prompt_cache_retention: object = None


_REQUEST = msgspec.json.Decoder(_Request)
_MESSAGE = msgspec.json.Decoder(_Message)
_PART = msgspec.json.Decoder(_Part)
_TOOL = msgspec.json.Decoder(_Tool)
_FUNCTION = msgspec.json.Decoder(_Function)


# --- reading ----------------------------------------------------------------------------------------------


def parse(body: bytes, known: Conversation | None = None) -> Conversation:
    """Take a request apart; `known` is one before it. Raises NotSplicable where it is not what the wire documents."""
    with source.understood_as("a Chat Completions request"):
        return _parse(body, known)


def _parse(body: bytes, known: Conversation | None) -> Conversation:
    taken = take_apart(body, "messages", known, _Reader())
    request, items = _REQUEST.decode(taken.text), taken.items
    system = [draft.text for item in items[: _leading(items)] for draft in item.drafts]
    offered = [*(request.tools or ()), *(request.functions or ())]
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
        head_chars=sum(len(bytes(tool).decode()) for tool in offered),
        head_media=0,
        tools=(
            *(_tool_name(_TOOL.decode(tool)) for tool in request.tools or ()),
            *(_FUNCTION.decode(function).name for function in request.functions or ()),
        ),
        teaches=any(item.teaches for item in items),
        instructed=any(texts.STANDING_INSTRUCTION in text for text in system),
        manual_reasoning=request.thinking is not None and request.thinking.type == "enabled",
        structured=request.response_format is not None and request.response_format.type.startswith("json"),
        max_tokens=request.max_tokens if request.max_tokens is not None else request.max_completion_tokens,
        identity=identity((text for text in system if text != texts.STANDING_INSTRUCTION), items),
        users=request.users(),
        cache_keys=request.cache_keys(),
        cache_marks=None,
        cache_seconds=lifetime.retained(request.prompt_cache_retention),
    )


def _tool_name(tool: _Tool) -> str:
    offered = tool.function or tool.custom
    return offered.name if offered else ""


def _leading(items: Sequence[Item]) -> int:
    """Return how many system and developer messages open the conversation."""
    return next((index for index, item in enumerate(items) if item.kind != "pinned"), len(items))


class _Reader:
    """Read messages in order: a result is named by the call before it."""

    def __init__(self) -> None:
        self.names = Calls[str]()
        """Name of the tool of each call."""
        self._index = -1
        self._function = ""
        """Call of the legacy form that waits for its result; its name is its id."""
        self._previous: ItemKind | None = None

    def resumed(self, items: Sequence[Item]) -> "_Reader":
        """Return a reader that stands behind `items`."""
        reader = _Reader()
        reader.names = self.names.before(len(items))
        reader._index = len(items) - 1
        last = next((item for item in reversed(items) if item.kind != "pinned"), None)
        waiting = [call.id for call in last.calls if call.id.startswith(_LEGACY)] if last else []
        reader._function = waiting[0] if waiting else ""
        reader._previous = last.kind if last else None
        return reader

    def item(self, original: bytes, readable: bytes) -> Item:
        self._index += 1
        message = _MESSAGE.decode(readable)
        parts = _parts(message.content)
        calls = self._calls(message)
        drafts: list[Draft] = []
        thinking = _thinking(message)
        drafts += [Draft("assistant", "thinking", None, text) for text in thinking]
        kind = _kind(message, parts)
        answers: tuple[str, ...] = ()
        results: tuple[Result, ...] = ()
        if kind == "results":
            answers, name = self._answer(message)
            text = "\n".join(part_text for _, part_text in parts)
            if all(part.type == "text" for part, _ in parts) and not is_own(name):
                results = (compress.result(0, len(drafts), text),)
            drafts.append(Draft("tool", "tool_result", name, text))
        else:
            side: Role = "assistant" if kind == "assistant" else "user"
            drafts += [
                Draft(side, "text", None, text) for part, text in parts if side == "user" or text or part.type != "text"
            ]
            drafts += [Draft("assistant", "tool_use", call.name, text) for call, text in calls]
        signed = bool(message.thinking_blocks)
        item = Item(
            source=original,
            kind=kind,
            drafts=tuple(drafts),
            stored=kind != "pinned",
            calls=tuple(call for call, _ in calls),
            answers=answers,
            opens_step=kind == "assistant" and self._previous != "assistant",
            replies=kind == "assistant" and not calls,
            signed=signed,
            bare=signed and not calls and not any(text for _, text in parts),
            ends_in_server_tool=False,
            loads=(),
            teaches=kind in ("pinned", "wrapper") and any(offers_search(draft.text) for draft in drafts),
            results=results,
            chars=sum(len(draft.text) + (len(draft.name or "") if draft.kind == "tool_use" else 0) for draft in drafts),
            signed_chars=sum(map(len, thinking)) if signed else 0,
            media=sum(_media(part) for part, _ in parts),
        )
        if kind != "pinned":
            self._previous = kind
            self._function = self._function if message.function_call is not None else ""
        return item

    def _calls(self, message: _Message) -> list[tuple[Call, str]]:
        calls: list[tuple[Call, str]] = []
        for call in message.tool_calls or ():
            if call.custom is not None:
                calls.append((Call(call.id, call.custom.name), call.custom.input))
            elif call.function is not None:
                calls.append((Call(call.id, call.function.name), source.arguments(call.function.arguments)))
        if message.function_call is not None:
            self._function = f"{_LEGACY}{message.function_call.name}:{len(self.names)}"
            call = Call(self._function, message.function_call.name)
            calls.append((call, source.arguments(message.function_call.arguments)))
        for call, _ in calls:
            self.names.add(call.id, self._index, call.name)
        return calls

    def _answer(self, message: _Message) -> tuple[tuple[str, ...], str | None]:
        """Return the id a result answers and the name of its tool."""
        if message.role == "function":
            answered, self._function = self._function, ""
            return (answered,) if answered else (), message.name
        return (message.tool_call_id,), self.names.latest(message.tool_call_id)


def _kind(message: _Message, parts: Sequence[tuple[_Part, str]]) -> ItemKind:
    if message.role in _PINNED:
        return "pinned"
    if message.role == "assistant":
        return "assistant"
    if message.role in ("tool", "function"):
        return "results"
    if message.content is None:
        return "other"
    wrapped = bool(parts) and all(part.type == "text" and is_wrapper(text) for part, text in parts)
    return "wrapper" if wrapped else "turn"


def _thinking(message: _Message) -> list[str]:
    """Return the reasoning texts: those of the signed blocks, which say the same, before the unsigned field's."""
    if message.role != "assistant":
        return []
    signed = [block.thinking for block in message.thinking_blocks or () if block.thinking.strip()]
    unsigned = message.reasoning_content or ""
    return signed or ([unsigned] if unsigned.strip() else [])


def _parts(content: str | list[msgspec.Raw] | None) -> list[tuple[_Part, str]]:
    """Return each content part and its row text; a string is one text part, no content is none."""
    if content is None:
        return []
    if isinstance(content, str):
        return [(_Part("text", text=content), content)]
    return [_part(bytes(raw)) for raw in content]


def _part(raw: bytes) -> tuple[_Part, str]:
    """Return a content part and its row text; what is no object, which some back ends let pass, is its source."""
    if not raw.startswith(b"{"):
        return _Part("value"), source.compact(raw)
    part = _PART.decode(raw)
    return part, _text(part, raw)


def _text(part: _Part, raw: bytes) -> str:
    if part.type == "text":
        return part.text
    if part.type == "refusal":
        return part.refusal
    if part.image_url is not None:
        return attached(part.type, part.image_url.url, None, raw)
    if part.file is not None:
        return attached(part.type, part.file.file_data, part.file.file_id, raw)
    if part.input_audio is not None:
        return described(part.type, f"audio/{part.input_audio.format}", part.input_audio.data.encode())
    return described(part.type, "", without_mark(raw))


def _media(part: _Part) -> int:
    if part.image_url is not None:
        inline = data_url(part.image_url.url)
        return media.tile_tokens(inline[1] if inline else None, low=part.image_url.detail == "low")
    if part.file is not None:
        inline = data_url(part.file.file_data or "")
        return media.document_tokens(inline[1] if inline else part.file.file_data)
    return 0


# --- writing ----------------------------------------------------------------------------------------------


def render(conversation: Conversation, rendering: Rendering) -> bytes:
    """Put a request together under a view: what the view does not touch is the client's bytes."""
    items = conversation.items
    instruct = rendering.instruct and not conversation.instructed
    if not instruct and not rendering.changes_items(len(items)):
        return conversation.body
    written = [_message(items[index], index, rendering) for index in rendering.kept]
    if instruct:
        place = _leading([items[index] for index in rendering.kept])
        written.insert(place, msgspec.json.encode({"role": "system", "content": texts.STANDING_INSTRUCTION}))
    return source.replaced(conversation.body, {conversation.places["messages"]: source.array(written)})


def _message(item: Item, index: int, rendering: Rendering) -> bytes:
    text = item.source
    if index in rendering.compressed:
        text = _with_text(text, rendering.compressed[index][0])
    if index in rendering.stripped:
        text = source.without_member(text, _SIGNED)
    if index == rendering.noted and rendering.note:
        text = _noted(text, rendering.note)
    return text


def _content(message: bytes) -> tuple[Span, bytes]:
    """Return where a message's content stands, and its readable source."""
    readable = source.readable(message)
    start, stop = source.members(readable)["content"]
    return (start, stop), readable[start:stop]


def _with_text(message: bytes, form: str) -> bytes:
    """Return a tool message that says `form`, in the shape its content had."""
    place, content = _content(message)
    value = msgspec.json.encode(form)
    if content.startswith(b"["):
        start, stop = source.elements(content)[-1]  # the last part may carry a cache marker
        last = message[place[0] + start : place[0] + stop]
        value = source.array([source.replaced(last, {source.members(content[start:stop])["text"]: value})])
    return source.replaced(message, {place: value})


def _noted(message: bytes, note: str) -> bytes:
    """Return a user message that opens with the note: a string stays a string, a list gets one more part."""
    (start, stop), content = _content(message)
    if content.startswith(b"["):
        parts = [message[start + a : start + b] for a, b in source.elements(content)]
        value = source.array([msgspec.json.encode({"type": "text", "text": note}), *parts])
    else:
        value = source.prefixed(message[start:stop], note + "\n\n")
    return source.replaced(message, {(start, stop): value})


# --- usage ------------------------------------------------------------------------------------------------


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Counts(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Answer(msgspec.Struct):
    """A whole answer, or one chunk of a stream."""

    usage: _Counts | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def usage(payload: bytes) -> Usage | None:
    """Return what one chunk, or one whole answer, reports; None where it reports nothing.

    The prompt's count includes cached tokens; a gateway's own cache fields win over the details.
    """
    counts = _ANSWER.decode(payload).usage
    if counts is None:
        return None
    details = counts.prompt_tokens_details or _Details()
    read = _first(counts.cache_read_input_tokens, details.cached_tokens)
    created = _first(
        counts.cache_creation_input_tokens, _first(details.cache_creation_tokens, details.cache_write_tokens)
    )
    fresh = None if counts.prompt_tokens is None else max(0, counts.prompt_tokens - (read or 0) - (created or 0))
    return Usage(
        input_tokens=fresh,
        cache_read_tokens=read,
        cache_creation_tokens=created,
        output_tokens=counts.completion_tokens,
        final=True,
    )


def _first(preferred: int | None, other: int | None) -> int | None:
    return other if preferred is None else preferred
