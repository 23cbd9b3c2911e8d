"""Own the reading of a request: its input taken apart into items, in order."""

from collections.abc import Sequence

import msgspec
from openmem_store.owntools import is_own
from openmem_store.rows import Draft, Role

from .. import compress, lifetime, media, source, texts
from ..calls import Calls
from ..described import attached, described, without_mark
from ..identify import is_task, is_wrapper, offers_search
from ..model import Call, Conversation, Item, ItemKind, Result, identity, totals
from ..naming import Named
from ..prefix import take_apart
from ..source import present
from .items import CALLS, ITEM, OUTPUTS, PINNED, SPOKEN, WireItem, argument, is_signed
from .parts import LIST, Part, media_tokens, parts_of


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


_REQUEST = msgspec.json.Decoder(_Request)

_TOOL = msgspec.json.Decoder(_Tool)


def parse(body: bytes, known: Conversation | None = None) -> Conversation:
    """Take a request apart; `known` is one before it. Raises NotSplicable where it is not what the wire documents."""
    with source.understood_as("a Responses request"):
        return _parse(body, known)


def _parse(body: bytes, known: Conversation | None) -> Conversation:
    taken = take_apart(body, "input", known, Reader())
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


class Reader:
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

    def resumed(self, items: Sequence[Item]) -> "Reader":
        """Return a reader that stands behind `items`."""
        reader = Reader()
        reader.calls = self.calls.before(len(items))
        reader.tools = [offer for offer in self.tools if offer[0] < len(items)]
        reader._index = len(items) - 1
        reader._previous = next((item.kind for item in reversed(items) if item.kind not in ("pinned", "other")), None)
        return reader

    def item(self, original: bytes, readable: bytes) -> Item:
        self._index += 1
        item = ITEM.decode(readable)
        self.last = item.type
        drafts, calls, answers, results = self._read(item, readable)
        parts = parts_of(item.content)
        kind = _kind(item, parts)
        if item.type == "additional_tools" and item.tools:
            self.tools += [(self._index, name) for tool in LIST.decode(item.tools) for name in _tool_names(tool)]
        signed = item.type == "reasoning" and is_signed(item.encrypted_content)
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
            media=sum(media_tokens(part) for part, _ in (*parts, *parts_of(item.output)))
            + (media.tile_tokens(item.result, low=False) if item.result else 0),
        )
        if kind not in ("pinned", "other"):
            self._previous = kind
        return made

    def _read(
        self, item: WireItem, readable: bytes
    ) -> tuple[list[Draft], tuple[Call, ...], tuple[str, ...], tuple[Result, ...]]:
        """Return an item's drafts, the calls it makes, the calls it answers, and its compressible results."""
        if item.type in OUTPUTS:
            name, echo = self.calls.latest(item.call_id or "") or (None, False)
            parts = parts_of(item.output) or ([] if item.type != "tool_search_output" else parts_of(item.tools))
            text = "\n".join(text for _, text in parts)
            plain = all(part.type in ("text", "input_text", "output_text") for part, _ in parts)
            fits = plain and item.type != "tool_search_output" and not echo and not is_own(name)
            result = (compress.result(0, 0, text),) if fits else ()
            return [Draft("tool", "tool_result", name, text)], (), (item.call_id,) if item.call_id else (), result
        if item.type in CALLS:
            return self._call(item)
        if item.type == "reasoning":
            text = "\n".join(text for _, text in parts_of(item.summary) or parts_of(item.content))
            return ([Draft("assistant", "thinking", None, text)] if text.strip() else []), (), (), ()
        if item.type in SPOKEN:
            side: Role = "assistant" if item.role == "assistant" else "user"
            said = [text for _, text in parts_of(item.content)]
            return [Draft(side, "text", None, text) for text in said if text or side == "user"], (), (), ()
        if item.type == "mcp_approval_response":
            name, _ = self.calls.latest(item.approval_request_id or "") or (None, False)
            said = {key: raw for key, raw in (("approve", item.approve), ("reason", item.reason)) if present(raw)}
            return [Draft("tool", "tool_result", name, source.compact(msgspec.json.encode(said)))], (), (), ()
        if item.type in PINNED or item.type == "compaction_trigger":
            return [], (), (), ()
        side = "assistant" if item.role == "assistant" else "user"
        return [Draft(side, "text", None, described(item.type, "", without_mark(readable)))], (), (), ()

    def _call(self, item: WireItem) -> tuple[list[Draft], tuple[Call, ...], tuple[str, ...], tuple[Result, ...]]:
        kind = CALLS[item.type]
        name = item.name or kind.tool
        if item.namespace:
            name = f"{item.namespace}__{name}"
        given = argument(kind.input(item), free=kind.free)
        identifier = item.call_id or item.id or ""
        echo = item.type == "custom_tool_call" and texts.TOOL_PREFIX in given
        self.calls.add(identifier, self._index, (name, echo))
        drafts = [Draft("assistant", "tool_use", name, given)]
        if kind.answered:
            return drafts, (Call(identifier, name),), (), ()
        inside = kind.result(item)
        if item.result is not None:
            drafts.append(Draft("tool", "tool_result", name, attached("image", item.result, None, b"")))
        elif present(inside):
            drafts.append(Draft("tool", "tool_result", name, "\n".join(text for _, text in parts_of(inside))))
        return drafts, (), (), ()


def _kind(item: WireItem, parts: Sequence[tuple[Part, str]]) -> ItemKind:
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


def _loaded(item: WireItem) -> list[str]:
    """Return the names of the tools a search brought."""
    if item.type != "tool_search_output" or not present(item.tools):
        return []
    return [name for tool in LIST.decode(item.tools) for name in _tool_names(tool)]
