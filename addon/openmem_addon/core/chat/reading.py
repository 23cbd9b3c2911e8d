"""Own the reading of a request: its body taken apart into messages, in order."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from openmem_store.owntools import is_own
from openmem_store.rows import Draft, Role

from .. import compress, lifetime, source, texts
from ..calls import Calls
from ..identify import is_wrapper, offers_search
from ..model import Call, Conversation, Item, ItemKind, Result, identity
from ..naming import Named
from ..prefix import take_apart
from .parts import Part, media_tokens, parts_of

_PINNED = ("system", "developer")

_LEGACY = "function:"
"""Opens the id we give to a call of the legacy form, which has none."""


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

_TOOL = msgspec.json.Decoder(_Tool)

_FUNCTION = msgspec.json.Decoder(_Function)


def parse(body: bytes, known: Conversation | None = None) -> Conversation:
    """Take a request apart; `known` is one before it. Raises NotSplicable where it is not what the wire documents."""
    with source.understood_as("a Chat Completions request"):
        return _parse(body, known)


def _parse(body: bytes, known: Conversation | None) -> Conversation:
    taken = take_apart(body, "messages", known, _Reader())
    request, items = _REQUEST.decode(taken.text), taken.items
    system = [draft.text for item in items[: leading(items)] for draft in item.drafts]
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


def leading(items: Sequence[Item]) -> int:
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
        parts = parts_of(message.content)
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
            media=sum(media_tokens(part) for part, _ in parts),
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


def _kind(message: _Message, parts: Sequence[tuple[Part, str]]) -> ItemKind:
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
