"""Own the OpenAI Responses wire: an input taken apart into items, and put together again under a view.

https://platform.openai.com/docs/api-reference/responses
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Literal

import msgspec
from openmem_store.owntools import is_own
from openmem_store.rows import Draft, Role

from . import compress, lifetime, media, source, texts
from .calls import Calls
from .described import attached, data_url, described, without_mark
from .identify import is_task, is_wrapper, offers_search
from .model import Call, Conversation, Item, ItemKind, Result, identity, totals
from .naming import Named
from .prefix import take_apart
from .rendering import Rendering
from .source import Span
from .usage import Usage

_ABSENT = msgspec.Raw(b"")


class _Item(msgspec.Struct):
    """The fields we read of any item; the rest stays in its source."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant", ""] = ""
    content: msgspec.Raw = _ABSENT
    id: str | None = None
    call_id: str | None = None
    name: str = ""
    namespace: str | None = None
    arguments: msgspec.Raw = _ABSENT
    input: msgspec.Raw = _ABSENT
    action: msgspec.Raw = _ABSENT
    operation: msgspec.Raw = _ABSENT
    queries: msgspec.Raw = _ABSENT
    code: msgspec.Raw = _ABSENT
    output: msgspec.Raw = _ABSENT
    outputs: msgspec.Raw = _ABSENT
    results: msgspec.Raw = _ABSENT
    error: msgspec.Raw = _ABSENT
    tools: msgspec.Raw = _ABSENT
    summary: msgspec.Raw = _ABSENT
    encrypted_content: str | None = None
    result: str | None = None
    approval_request_id: str | None = None
    approve: msgspec.Raw = _ABSENT
    reason: msgspec.Raw = _ABSENT


class _Part(msgspec.Struct):
    """The fields we read of a content part."""

    type: str = ""
    text: str = ""
    refusal: str = ""
    logs: str = ""
    stdout: str = ""
    stderr: str = ""
    image_url: str | None = None
    detail: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None


class _Tool(msgspec.Struct):
    type: str = ""
    name: str = ""
    tools: list[msgspec.Raw] = []
    """Of a namespace."""


class _Format(msgspec.Struct):
    type: str = ""


class _Text(msgspec.Struct):
    format: _Format | None = None


class _Request(Named, kw_only=True):
    """The top-level fields we read."""

    input: str | list[msgspec.Raw]
    model: str | None = None
    instructions: str | None = None
    tools: list[msgspec.Raw] | None = None
    text: _Text | None = None
    max_output_tokens: int | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    prompt_cache_retention: object = None


class CallType(msgspec.Struct, frozen=True):
    """How a call item of one type is read."""

    tool: str
    """Its tool where the item names none."""
    input: Callable[[_Item], msgspec.Raw]
    answered: bool = True
    """A client's output item answers it; otherwise its result is in the item itself."""
    result: Callable[[_Item], msgspec.Raw] = lambda item: item.output if _present(item.output) else item.error
    free: bool = False
    """Its input is a text of the tool's own, never JSON to be compacted."""


CALLS: dict[str, CallType] = {
    "function_call": CallType("", lambda item: item.arguments),
    "custom_tool_call": CallType("", lambda item: item.input, free=True),
    "local_shell_call": CallType("local_shell", lambda item: item.action),
    "shell_call": CallType("shell", lambda item: item.action),
    "apply_patch_call": CallType("apply_patch", lambda item: item.operation),
    "computer_call": CallType("computer", lambda item: item.action),
    "tool_search_call": CallType("tool_search", lambda item: item.arguments),
    "mcp_call": CallType("", lambda item: item.arguments, answered=False),
    "mcp_approval_request": CallType("", lambda item: item.arguments, answered=False),
    "web_search_call": CallType("web_search", lambda item: item.action, answered=False),
    "file_search_call": CallType(
        "file_search", lambda item: item.queries, answered=False, result=lambda item: item.results
    ),
    "code_interpreter_call": CallType(
        "code_interpreter", lambda item: item.code, answered=False, result=lambda item: item.outputs, free=True
    ),
    "image_generation_call": CallType("image_generation", lambda item: _ABSENT, answered=False),
}

OUTPUTS = {
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
    "computer_call_output",
    "tool_search_output",
}

_IMAGES = ("input_image", "computer_screenshot")
_MEDIA = (*_IMAGES, "input_file")

PINNED = {"additional_tools", "compaction", "compaction_summary", "configuration_update", "mcp_list_tools"}
"""Items that stay in every view: tools and settings the model has, and history that only the provider can read."""

SPOKEN = ("message", "agent_message")
"""Items with content of their own; the second is what one agent of Codex says to another, partly encrypted."""

_PINNING = "litellm_enc:"
"""Opens an encrypted content that LiteLLM sends back to the deployment it came from."""

_REQUEST = msgspec.json.Decoder(_Request)
_ITEM = msgspec.json.Decoder(_Item)
_PART = msgspec.json.Decoder(_Part)
_TOOL = msgspec.json.Decoder(_Tool)
_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_BLOCKS = msgspec.json.Decoder(list[_Part])


# --- reading ----------------------------------------------------------------------------------------------


def parse(body: bytes, known: Conversation | None = None) -> Conversation:
    """Take a request apart; `known` is one before it. Raises NotSplicable where it is not what the wire documents."""
    with source.understood_as("a Responses request"):
        return _parse(body, known)


def _parse(body: bytes, known: Conversation | None) -> Conversation:
    taken = take_apart(body, "input", known, _Reader())
    request, items, sums, reader = _REQUEST.decode(taken.text), taken.items, taken.totals, taken.reader
    if isinstance(request.input, str):
        start, stop = taken.places["input"]
        said = source.readable(body[start:stop])
        items = (reader.item(body[start:stop], b'{"role":"user","content":' + said + b"}"),)
        sums = totals(items)
    instructions = request.instructions or ""
    own = instructions.replace(texts.STANDING_INSTRUCTION, "")
    opening = next((place for place, item in enumerate(items) if item.kind != "pinned"), len(items))
    leading = [draft.text for item in items[:opening] for draft in item.drafts]
    form = request.text.format if request.text else None
    return Conversation(
        body=body,
        places=taken.places,
        ends=taken.ends,
        plain=taken.plain,
        reader=taken.reader,
        shared=taken.shared,
        totals=sums,
        model=request.model,
        items=items,
        head_chars=len(own) + sum(len(bytes(tool).decode()) for tool in request.tools or ()),
        head_media=0,
        tools=(
            *(name for tool in request.tools or () for name in _tool_names(tool)),
            *(name for _, name in reader.tools),
        ),
        teaches=offers_search(instructions) or any(item.teaches for item in items),
        instructed=texts.STANDING_INSTRUCTION in instructions,
        manual_reasoning=False,
        structured=form is not None and form.type.startswith("json"),
        max_tokens=request.max_output_tokens,
        identity=identity((text for text in (own.rstrip(), *leading) if text), items),
        users=request.users(),
        cache_keys=request.cache_keys(),
        cache_marks=None,
        cache_seconds=lifetime.retained(request.prompt_cache_retention),
        previous=request.previous_response_id,
        kept=request.store is not False,
        compacts=bool(reader.last == "compaction_trigger"),
    )


def _tool_names(raw: msgspec.Raw) -> list[str]:
    """Return a tool's name; of a namespace, those of its tools."""
    tool = _TOOL.decode(raw)
    if not tool.tools:
        return [tool.name or tool.type]
    return [f"{tool.name}__{name}" for inner in tool.tools for name in _tool_names(inner)]


class _Reader:
    """Read items in order: an output is named by the call before it."""

    def __init__(self) -> None:
        self.calls = Calls[tuple[str, bool]]()
        """Name of the tool of each call, and whether its output is an echo of ours."""
        self.tools: list[tuple[int, str]] = []
        """Index of each `additional_tools` item with each name it offers."""
        self._index = -1
        self.last = ""
        """Type of the last item."""
        self._previous: ItemKind | None = None

    def resumed(self, items: Sequence[Item]) -> "_Reader":
        """Return a reader that stands behind `items`."""
        reader = _Reader()
        reader.calls = self.calls.before(len(items))
        reader.tools = [offer for offer in self.tools if offer[0] < len(items)]
        reader._index = len(items) - 1
        reader._previous = next((item.kind for item in reversed(items) if item.kind not in ("pinned", "other")), None)
        return reader

    def item(self, original: bytes, readable: bytes) -> Item:
        self._index += 1
        item = _ITEM.decode(readable)
        self.last = item.type
        drafts, calls, answers, results = self._read(item, readable)
        parts = _parts(item.content)
        kind = _kind(item, parts)
        if item.type == "additional_tools" and item.tools:
            self.tools += [(self._index, name) for tool in _LIST.decode(item.tools) for name in _tool_names(tool)]
        signed = item.type == "reasoning" and _is_signed(item.encrypted_content)
        chars = sum(len(draft.text) + (len(draft.name or "") if draft.kind == "tool_use" else 0) for draft in drafts)
        if kind == "pinned" and item.type != "message":
            chars += len(readable.decode(errors="replace"))
        made = Item(
            source=original,
            kind=kind,
            drafts=tuple(drafts),
            stored=kind != "pinned",
            calls=calls,
            answers=answers,
            opens_step=kind == "assistant" and self._previous != "assistant",
            replies=kind == "assistant" and item.type == "message",
            reasons=item.type == "reasoning",
            signed=signed,
            bare=signed,
            ends_in_server_tool=False,
            loads=tuple(_loaded(item)),
            teaches=kind in ("pinned", "wrapper") and any(offers_search(draft.text) for draft in drafts),
            results=results,
            chars=chars,
            signed_chars=chars if signed else 0,
            media=sum(_media(part) for part, _ in (*parts, *_parts(item.output)))
            + (media.tile_tokens(item.result, low=False) if item.result else 0),
        )
        if kind not in ("pinned", "other"):
            self._previous = kind
        return made

    def _read(
        self, item: _Item, readable: bytes
    ) -> tuple[list[Draft], tuple[Call, ...], tuple[str, ...], tuple[Result, ...]]:
        """Return an item's drafts, the calls it makes, the calls it answers, and its compressible results."""
        if item.type in OUTPUTS:
            name, echo = self.calls.latest(item.call_id or "") or (None, False)
            parts = _parts(item.output) or ([] if item.type != "tool_search_output" else _parts(item.tools))
            text = "\n".join(text for _, text in parts)
            plain = all(part.type in ("text", "input_text", "output_text") for part, _ in parts)
            fits = plain and item.type != "tool_search_output" and not echo and not is_own(name)
            result = (compress.result(0, 0, text),) if fits else ()
            return [Draft("tool", "tool_result", name, text)], (), (item.call_id,) if item.call_id else (), result
        if item.type in CALLS:
            return self._call(item)
        if item.type == "reasoning":
            text = "\n".join(text for _, text in _parts(item.summary) or _parts(item.content))
            return ([Draft("assistant", "thinking", None, text)] if text.strip() else []), (), (), ()
        if item.type in SPOKEN:
            side: Role = "assistant" if item.role == "assistant" else "user"
            said = [text for _, text in _parts(item.content)]
            return [Draft(side, "text", None, text) for text in said if text or side == "user"], (), (), ()
        if item.type == "mcp_approval_response":
            name, _ = self.calls.latest(item.approval_request_id or "") or (None, False)
            said = {key: raw for key, raw in (("approve", item.approve), ("reason", item.reason)) if _present(raw)}
            return [Draft("tool", "tool_result", name, source.compact(msgspec.json.encode(said)))], (), (), ()
        if item.type in PINNED or item.type == "compaction_trigger":
            return [], (), (), ()
        side = "assistant" if item.role == "assistant" else "user"
        return [Draft(side, "text", None, described(item.type, "", without_mark(readable)))], (), (), ()

    def _call(self, item: _Item) -> tuple[list[Draft], tuple[Call, ...], tuple[str, ...], tuple[Result, ...]]:
        kind = CALLS[item.type]
        name = item.name or kind.tool
        if item.namespace:
            name = f"{item.namespace}__{name}"
        given = _argument(kind.input(item), free=kind.free)
        identifier = item.call_id or item.id or ""
        echo = item.type == "custom_tool_call" and texts.TOOL_PREFIX in given
        self.calls.add(identifier, self._index, (name, echo))
        drafts = [Draft("assistant", "tool_use", name, given)]
        if kind.answered:
            return drafts, (Call(identifier, name),), (), ()
        inside = kind.result(item)
        if item.result is not None:
            drafts.append(Draft("tool", "tool_result", name, attached("image", item.result, None, b"")))
        elif _present(inside):
            drafts.append(Draft("tool", "tool_result", name, "\n".join(text for _, text in _parts(inside))))
        return drafts, (), (), ()


def _kind(item: _Item, parts: Sequence[tuple[_Part, str]]) -> ItemKind:
    if item.type in PINNED or (item.type == "message" and item.role in ("system", "developer")):
        return "pinned"
    if item.type in OUTPUTS:
        return "results"
    if item.type in CALLS or item.type == "reasoning" or (item.type == "message" and item.role == "assistant"):
        return "assistant"
    if item.type == "agent_message":
        return "turn" if parts and is_task(parts[0][1]) else "other"
    if item.type != "message" or bytes(item.content)[:1] not in (b'"', b"["):
        return "other"
    wrapped = bool(parts) and all(part.type in ("text", "input_text") and is_wrapper(text) for part, text in parts)
    return "wrapper" if wrapped else "turn"


def _is_signed(encrypted: str | None) -> bool:
    """Return whether reasoning is LiteLLM's packing of signed Anthropic blocks: a JSON list of them.

    Where it pins a model it puts `litellm_enc:<base64>;` before that. OpenAI's own encrypted
    content is no JSON, and not tied to the messages before it.
    """
    if not encrypted:
        return False
    packed = encrypted.partition(";")[2] if encrypted.startswith(_PINNING) else encrypted
    if not packed.lstrip().startswith("["):
        return False
    try:
        return any(block.type in ("thinking", "redacted_thinking") for block in _BLOCKS.decode(packed))
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return False


def _loaded(item: _Item) -> list[str]:
    """Return the names of the tools a search brought."""
    if item.type != "tool_search_output" or not _present(item.tools):
        return []
    return [name for tool in _LIST.decode(item.tools) for name in _tool_names(tool)]


def _present(value: msgspec.Raw) -> bool:
    return bytes(value) not in (b"", b"null")


def _argument(value: msgspec.Raw, *, free: bool) -> str:
    """Return a call's input: a string's own JSON compacted unless it is `free` text, an object compact."""
    raw = bytes(value)
    if not _present(value):
        return "" if free else "{}"
    if not raw.startswith(b'"'):
        return source.compact(raw)
    text = msgspec.json.decode(raw, type=str)
    return text if free else source.arguments(text)


def _parts(value: msgspec.Raw) -> list[tuple[_Part, str]]:
    """Return each part of a content or output and its row text; a string is one text part, an object one part."""
    raw = bytes(value)
    if not _present(value):
        return []
    if raw.startswith(b'"'):
        text = msgspec.json.decode(raw, type=str)
        return [(_Part("text", text=text), text)]
    if not raw.startswith(b"["):
        part = _PART.decode(raw) if raw.startswith(b"{") else _Part("value")
        return [(part, _text(part, raw) if part.type in _MEDIA else source.compact(raw))]
    decoded = [(_PART.decode(part), bytes(part)) for part in _LIST.decode(value)]
    return [(part, _text(part, inner)) for part, inner in decoded]


def _text(part: _Part, raw: bytes) -> str:
    """Return a part as text: its words, whatever field holds them, or its type, size and hash."""
    if part.type in ("text", "input_text", "output_text", "summary_text", "reasoning_text"):
        return part.text
    if part.type in _MEDIA:
        return attached(part.type, part.image_url or part.file_data, part.file_url or part.file_id, raw)
    words = [text for text in (part.text, part.refusal, part.logs, part.stdout, part.stderr) if text]
    return "\n".join(words) or described(part.type, "", without_mark(raw))


def _media(part: _Part) -> int:
    if part.type in _IMAGES:
        inline = data_url(part.image_url or "")
        return media.tile_tokens(inline[1] if inline else None, low=part.detail == "low")
    if part.type == "input_file":
        inline = data_url(part.file_data or "")
        return media.document_tokens(inline[1] if inline else part.file_data)
    return 0


# --- writing ----------------------------------------------------------------------------------------------


def render(conversation: Conversation, rendering: Rendering) -> bytes:
    """Put a request together under a view: what the view does not touch is the client's bytes."""
    body, places = conversation.body, conversation.places
    values: dict[Span, bytes] = {}
    if rendering.changes_items(len(conversation.items)):
        written = (_written(conversation.items[index], index, rendering) for index in rendering.kept)
        values[places["input"]] = source.array(list(chain.from_iterable(written)))
    if not rendering.instruct or conversation.instructed:
        return source.replaced(body, values) if values else body
    if "instructions" not in places:
        told = msgspec.json.encode(texts.STANDING_INSTRUCTION)
        return source.with_member(source.replaced(body, values), "instructions", told)
    start, stop = places["instructions"]
    if body[start:stop] in (b"null", b'""'):
        values[start, stop] = msgspec.json.encode(texts.STANDING_INSTRUCTION)
    else:
        values[start, stop] = source.suffixed(body[start:stop], "\n\n" + texts.STANDING_INSTRUCTION)
    return source.replaced(body, values)


def _written(item: Item, index: int, rendering: Rendering) -> tuple[bytes, ...]:
    """Return what stands for an item: itself, and before another agent's message the note as one of its own.

    A message between agents has an author, and parts that only the provider can read: nothing is put into it.
    """
    text = item.source
    if text.startswith(b'"'):  # the whole input is one string
        text = b'{"type":"message","role":"user","content":' + text + b"}"
    if index in rendering.compressed:
        text = _replaced(text, "output", rendering.compressed[index][0])
    if index != rendering.noted or not rendering.note:
        return (text,)
    if _ITEM.decode(source.readable(text)).type == "agent_message":
        return (b'{"type":"message","role":"user","content":[' + _part(rendering.note) + b"]}", text)
    return (_noted(text, rendering.note),)


def _replaced(item: bytes, key: str, form: str) -> bytes:
    """Return an output item that says `form`, in the shape its output had."""
    readable = source.readable(item)
    start, stop = source.members(readable)[key]
    value = msgspec.json.encode(form)
    if readable[start:stop].startswith(b"["):
        value = source.array([b'{"type":"input_text","text":' + value + b"}"])
    return source.replaced(item, {(start, stop): value})


def _noted(item: bytes, note: str) -> bytes:
    """Return a user message whose content, a list, opens with the note."""
    readable = source.readable(item)
    start, stop = source.members(readable)["content"]
    parts = [b'{"type":"input_text","text":' + item[start:stop] + b"}"]
    if readable[start:stop].startswith(b"["):
        parts = [item[start + a : start + b] for a, b in source.elements(readable[start:stop])]
    return source.replaced(item, {(start, stop): source.array([_part(note), *parts])})


def _part(text: str) -> bytes:
    return msgspec.json.encode({"type": "input_text", "text": text})


# --- usage ------------------------------------------------------------------------------------------------


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Counts(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None


class _Answer(msgspec.Struct):
    id: str | None = None
    usage: _Counts | None = None
    output: list[msgspec.Raw] = []
    store: bool = True


class _Event(msgspec.Struct):
    """A whole answer, or one event of a stream."""

    type: str = ""
    response: _Answer | None = None


_EVENT = msgspec.json.Decoder(_Event)
_WHOLE = msgspec.json.Decoder(_Answer)

_FINAL = ("response.completed", "response.incomplete", "response.failed")


def usage(payload: bytes) -> Usage | None:
    """Return what one event, or one whole answer, reports; None where it reports nothing.

    The input's count includes cached tokens; cache writes are not reported.
    """
    event = _EVENT.decode(payload)
    answer = event.response or (_WHOLE.decode(payload) if not event.type else _Answer())
    final = event.type in _FINAL or not event.type
    if not final and answer.usage is None:
        return None
    counts = answer.usage or _Counts()
    read = counts.input_tokens_details.cached_tokens if counts.input_tokens_details else None
    return Usage(
        input_tokens=None if counts.input_tokens is None else max(0, counts.input_tokens - (read or 0)),
        cache_read_tokens=read,
        output_tokens=counts.output_tokens,
        final=final,
        response_id=answer.id if final and answer.store else None,
        output=_said(answer.output) if final and answer.store else (),
    )


def _said(output: Sequence[msgspec.Raw]) -> tuple[Draft, ...]:
    """Return the drafts of the items a response consists of."""
    reader = _Reader()
    items = (reader.item(bytes(raw), source.readable(bytes(raw))) for raw in output)
    return tuple(draft for item in items if item.stored for draft in item.drafts)
