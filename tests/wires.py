"""Invent conversations of no provider in particular, and write each one as a request on each of the three wires.

A conversation is a list of events. `written` gives the request an agent sends when it has come
that far; `faults` says what a provider would refuse of it. A signed thought holds a digest of
the prompt it was produced under, so that `faults` finds every one whose prompt was changed.
Every text opens with a mark of its own, `⟦7⟧`, by which a test finds it again.
"""

import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import count
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st

Json = dict[str, Any]
Wire = Literal["anthropic", "chat", "responses"]
Reasoning = Literal["none", "signed", "open"]
"""`signed` binds to the prompt before it; `open` is OpenAI's own, and bound to nothing."""

WIRES: tuple[Wire, ...] = ("anthropic", "chat", "responses")
REASONINGS: dict[Wire, tuple[Reasoning, ...]] = {
    "anthropic": ("none", "signed"),
    "chat": ("none", "signed", "open"),
    "responses": ("none", "signed", "open"),
}

SEARCH = "mcp__openmem__smart_compact_search"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAGQAAADICAIAAACRcFC9AAAAAElFTkSuQmCC"
"""The head of a PNG of 100 × 200 pixels, base64."""


# --- events ------------------------------------------------------------------------------------------------


class User(msgspec.Struct, frozen=True):
    """What a person typed."""

    text: str
    image: bool = False


class Reminder(msgspec.Struct, frozen=True):
    """A user's message that the client wrote."""

    text: str


class Call(msgspec.Struct, frozen=True):
    """A tool call and what came of it."""

    id: str
    text: str
    """Its argument."""
    result: str
    tool: str = "Read"
    pictured: bool = False
    """An image follows the result's text; Chat has no place for one."""


class Agent(msgspec.Struct, frozen=True):
    """One answer of the model: a step where it calls tools, else a reply."""

    text: str | None = None
    calls: tuple[Call, ...] = ()
    thought: str | None = None
    signature: str = ""
    """Digest of the prompt it was produced under; empty for reasoning that is not signed."""


class Results(msgspec.Struct, frozen=True):
    """Tool results, in the order they came."""

    calls: tuple[Call, ...]


Event = User | Reminder | Agent | Results


# --- writing an event --------------------------------------------------------------------------------------


def _reminder(text: str) -> str:
    return f"<system-reminder>{text}</system-reminder>"


def _data_url() -> str:
    return f"data:image/png;base64,{PIXEL}"


def _anthropic(event: Event) -> list[Json]:
    match event:
        case User(text, image):
            picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
            content = [{"type": "text", "text": text}, picture] if image else text
            return [{"role": "user", "content": content}]
        case Reminder(text):
            return [{"role": "user", "content": _reminder(text)}]
        case Results(calls):
            return [{"role": "user", "content": [_anthropic_result(call) for call in calls]}]
        case Agent(text, calls, thought, signature):
            blocks: list[Json] = []
            if thought is not None and signature:
                blocks.append({"type": "thinking", "thinking": thought, "signature": signature})
            if text is not None:
                blocks.append({"type": "text", "text": text})
            blocks += [
                {"type": "tool_use", "id": call.id, "name": call.tool, "input": {"path": call.text}} for call in calls
            ]
            return [{"role": "assistant", "content": blocks}]


def _anthropic_result(call: Call) -> Json:
    content: object = call.result
    if call.pictured:
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
        content = [{"type": "text", "text": call.result}, picture]
    return {"type": "tool_result", "tool_use_id": call.id, "content": content}


def _chat(event: Event) -> list[Json]:
    match event:
        case User(text, image):
            picture = {"type": "image_url", "image_url": {"url": _data_url()}}
            return [{"role": "user", "content": [{"type": "text", "text": text}, picture] if image else text}]
        case Reminder(text):
            return [{"role": "user", "content": _reminder(text)}]
        case Results(calls):
            return [_chat_result(call) for call in calls]
        case Agent(text, calls, thought, signature):
            message: Json = {"role": "assistant", "content": text if text is not None or calls else ""}
            if calls:
                message["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.tool, "arguments": _arguments(call)},
                    }
                    for call in calls
                ]
            if thought is not None and signature:
                message["thinking_blocks"] = [{"type": "thinking", "thinking": thought, "signature": signature}]
            elif thought is not None:
                message["reasoning_content"] = thought
            return [message]


def _chat_result(call: Call) -> Json:
    return {"role": "tool", "tool_call_id": call.id, "content": call.result}


def _responses(event: Event) -> list[Json]:
    match event:
        case User(text, image):
            parts = [{"type": "input_text", "text": text}]
            parts += [{"type": "input_image", "image_url": _data_url()}] if image else []
            return [{"type": "message", "role": "user", "content": parts}]
        case Reminder(text):
            return [{"role": "user", "content": _reminder(text)}]
        case Results(calls):
            return [_responses_result(call) for call in calls]
        case Agent(text, calls, thought, signature):
            items: list[Json] = []
            named: Callable[[str], Json] = lambda kind: {}  # noqa: E731
            if thought is not None:
                name = hashlib.sha256(thought.encode("utf-8", "replace")).hexdigest()[:8]
                opaque = f"gAAAA{name}"
                if signature:
                    block = {"type": "thinking", "thinking": thought, "signature": signature}
                    opaque = json.dumps([block], separators=(",", ":"))
                else:
                    named = lambda kind: {"id": f"{kind}_{name}"}  # noqa: E731
                summary = [{"type": "summary_text", "text": thought}]
                items.append({"type": "reasoning", **named("rs"), "summary": summary, "encrypted_content": opaque})
            if text is not None:
                said = [{"type": "output_text", "text": text}]
                items.append({"type": "message", **named("msg"), "role": "assistant", "content": said})
            for call in calls:
                made = {"call_id": call.id, "name": call.tool, "arguments": _arguments(call)}
                items.append({"type": "function_call", **named("fc"), **made})
            return items


def _arguments(call: Call) -> str:
    return json.dumps({"path": call.text}, ensure_ascii=False)


def _responses_result(call: Call) -> Json:
    output: object = call.result
    if call.pictured:
        output = [{"type": "input_text", "text": call.result}, {"type": "input_image", "image_url": _data_url()}]
    return {"type": "function_call_output", "call_id": call.id, "output": output}


_WRITERS: dict[Wire, Callable[[Event], list[Json]]] = {"anthropic": _anthropic, "chat": _chat, "responses": _responses}


# --- a whole request ---------------------------------------------------------------------------------------


class Style(msgspec.Struct, frozen=True):
    """How one client writes."""

    tools: bool = True
    """It offers our search."""
    system: bool = True
    escapes: bool = False
    spaced: bool = False


def request(wire: Wire, events: Sequence[Event], style: Style | None = None) -> Json:
    """Return the request an agent sends when a conversation has come this far."""
    style = style or Style()
    items = [item for event in events for item in _WRITERS[wire](event)]
    names = ["Read", *([SEARCH] if style.tools else [])]
    system = "You are an agent." if style.system else None
    match wire:
        case "anthropic":
            tools = [{"name": name, "input_schema": {"type": "object"}} for name in names]
            made = {"model": "m-1", "max_tokens": 1000, "system": system, "messages": items, "tools": tools}
        case "chat":
            tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in names]
            head = [{"role": "system", "content": system}] if system else []
            made = {"model": "m-1", "messages": [*head, *items], "tools": tools}
        case "responses":
            tools = [{"type": "function", "name": name, "parameters": {}} for name in names]
            made = {"model": "m-1", "instructions": system, "input": items, "tools": tools, "store": False}
    return {key: value for key, value in made.items() if value is not None}


def written(wire: Wire, events: Sequence[Event], style: Style | None = None) -> bytes:
    """Return that request in the client's way of writing JSON."""
    style = style or Style()
    separators = (", ", ": ") if style.spaced else (",", ":")
    text = json.dumps(request(wire, events, style), ensure_ascii=style.escapes, separators=separators)
    return text.encode("utf-8", "replace")


# --- what a provider says ----------------------------------------------------------------------------------


def items_of(wire: Wire, body: Json) -> list[Json]:
    """Return the messages or items of a request."""
    found = body["input" if wire == "responses" else "messages"]
    return [{"role": "user", "content": found}] if isinstance(found, str) else found


def head_of(wire: Wire, body: Json) -> object:
    """Return what stands before every message of the prompt."""
    return [body.get(key) for key in ("system", "instructions", "tools")] if wire != "chat" else body.get("tools")


def sign(wire: Wire, body: Json, upto: int | None = None) -> str:
    """Return the digest of a prompt up to one of its items: what a thought produced under it is bound to."""
    prompt = json.dumps([head_of(wire, body), items_of(wire, body)[:upto]], sort_keys=True)
    return "sig-" + hashlib.sha256(prompt.encode()).hexdigest()[:16]


def signatures(wire: Wire, body: Json) -> list[tuple[int, str]]:
    """Return each signed thought of a request: the place of its item and its signature."""
    return [(place, found) for place, item in enumerate(items_of(wire, body)) for found in _signatures(wire, item)]


def _signatures(wire: Wire, item: Json) -> Iterator[str]:
    match wire:
        case "anthropic":
            blocks = item["content"] if isinstance(item["content"], list) else []
        case "chat":
            blocks = item.get("thinking_blocks") or []
        case "responses":
            opaque = item.get("encrypted_content") or ""
            blocks = json.loads(opaque) if opaque.startswith("[") else []
    yield from (block["signature"] for block in blocks if block["type"] == "thinking")


def faults(wire: Wire, body: Json) -> list[str]:
    """Return what a provider would refuse of a request; empty where it accepts it."""
    found = {"anthropic": _anthropic_faults, "chat": _chat_faults, "responses": _responses_faults}[wire](body)
    found += [
        f"thought {place} is bound to another prompt"
        for place, signature in signatures(wire, body)
        if signature.startswith("sig-") and signature != sign(wire, body, place)
    ]
    return found


def _anthropic_faults(body: Json) -> list[str]:
    found: list[str] = []
    open_calls: list[str] = []
    for place, message in enumerate(body["messages"]):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            found.append(f"message {place} is empty")
        kinds = [block["type"] for block in blocks]
        found += [f"empty text in {place}" for block in blocks if block["type"] == "text" and not block["text"].strip()]
        answers = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if message["role"] == "user" and sorted(answers) != sorted(open_calls):
            found.append(f"message {place} answers {answers}, called were {open_calls}")
        if answers and "tool_result" in kinds[len(answers) :]:
            found.append(f"results of {place} do not come first")
        if message["role"] == "assistant" and open_calls:
            found.append(f"calls before {place} have no results")
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if not body["messages"] or body["messages"][0]["role"] != "user":
        found.append("the first message is not the user's")
    return found + [f"call {name} has no result" for name in open_calls]


def _chat_faults(body: Json) -> list[str]:
    found: list[str] = []
    open_calls: list[str] = []
    for place, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                found.append(f"message {place} answers no call")
            else:
                open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            found.append(f"calls before {place} have no results: {open_calls}")
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        if message["role"] == "assistant" and message.get("content") is None and not open_calls:
            found.append(f"message {place} has neither content nor calls")
    return found + [f"call {name} has no result" for name in open_calls]


def _responses_faults(body: Json) -> list[str]:
    """Pairs; reasoning before what it led to, and what it led to behind it: they share the tail of their ids."""
    items = items_of("responses", body)
    kinds = [item.get("type", "message") for item in items]
    calls = [item["call_id"] for item, kind in zip(items, kinds, strict=True) if kind == "function_call"]
    outputs = [item["call_id"] for item, kind in zip(items, kinds, strict=True) if kind == "function_call_output"]
    found = [f"output of {name} without its call" for name in outputs if name not in calls]
    found += [f"call {name} without its output" for name in calls if name not in outputs]
    reasoned: set[str] = set()
    for place, item in enumerate(items):
        following = items[place + 1] if place + 1 < len(items) else {}
        name = item.get("id", "").partition("_")[2]
        if kinds[place] == "reasoning":
            reasoned.add(name)
            if following.get("role") != "assistant" and following.get("type") not in ("reasoning", "function_call"):
                found.append(f"reasoning {place} without what it led to")
        elif name and name not in reasoned:
            found.append(f"item {place} without its reasoning")
    return found


# --- finding texts again -----------------------------------------------------------------------------------


def marks(value: object) -> Iterator[str]:
    """Yield the mark of each text found anywhere in a JSON value, thoughts in encrypted content left out."""
    if isinstance(value, str):
        rest = value
        while (start := rest.find("⟦")) != -1:
            stop = rest.find("⟧", start)
            yield rest[start : stop + 1]
            rest = rest[stop + 1 :]
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key != "encrypted_content":
                yield from marks(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from marks(inner)


# --- playing a script --------------------------------------------------------------------------------------


class Use(msgspec.Struct, frozen=True):
    """A tool call to come."""

    size: int = 0
    """Code points its result is padded with."""
    own: bool = False
    """It asks our search."""
    pictured: bool = False


class Answer(msgspec.Struct, frozen=True):
    """What the model is going to say; a reply where it uses no tool."""

    thinks: bool = False
    says: bool = True
    uses: tuple[Use, ...] = ()


class Step(msgspec.Struct, frozen=True):
    """One tool exchange."""

    answer: Answer
    reverse: bool = False
    """Results in another order than the calls."""
    reminded: bool = False
    """The client has something to say after the results."""


class Turn(msgspec.Struct, frozen=True):
    """A person's turn and all that follows until the next."""

    words: str = "go on"
    size: int = 0
    image: bool = False
    reminded: bool = False
    """A message of the client's stands before it."""
    steps: tuple[Step, ...] = ()
    reply: Answer = Answer()
    rewinds_to: int | None = None
    """First the person goes back to the beginning of that earlier turn."""


class Script(msgspec.Struct, frozen=True):
    """A whole session."""

    turns: tuple[Turn, ...]
    reasoning: Reasoning = "none"
    style: Style = Style()
    numbers_anew: bool = False
    """Call ids begin anew with each answer, as those of some back ends do."""


class _Player:
    """Number what is said, so that each text is found again."""

    def __init__(self, script: Script) -> None:
        self.events: list[Event] = []
        self._script = script
        self._marks = count(1)

    def say(self, words: str, size: int = 0) -> str:
        return f"⟦{next(self._marks)}⟧ {words}" + " 行x" * (size // 3)

    def answer(self, answer: Answer, signature: str) -> tuple[Call, ...]:
        """Append an answer to a prompt with that digest; return its calls."""
        calls = tuple(
            Call(
                id=f"call_{place if self._script.numbers_anew else next(self._marks)}",
                text=self.say("a.txt"),
                result=self.say("found", use.size),
                tool=SEARCH if use.own else "Read",
                pictured=use.pictured,
            )
            for place, use in enumerate(answer.uses)
        )
        thought = self.say("a thought") if answer.thinks and self._script.reasoning != "none" else None
        signed = signature if thought is not None and self._script.reasoning == "signed" else ""
        text = self.say("saying") if answer.says or not calls else None
        self.events.append(Agent(text, calls, thought, signed))
        return calls


def talk(script: Script) -> Generator[list[Event], str]:
    """Play a script: yield the history of each request, take the digest of the prompt the provider got."""
    client = _Player(script)
    starts: list[int] = []
    for turn in script.turns:
        if turn.rewinds_to is not None and turn.rewinds_to < len(starts):
            del client.events[starts[turn.rewinds_to] :]
            del starts[turn.rewinds_to :]
        starts.append(len(client.events))
        if turn.reminded:
            client.events.append(Reminder(client.say("a note")))
        client.events.append(User(client.say(turn.words, turn.size), turn.image))
        for step in turn.steps:
            signature = yield list(client.events)
            calls = client.answer(step.answer, signature)
            client.events.append(Results(calls[::-1] if step.reverse else calls))
            if step.reminded:
                client.events.append(Reminder(client.say("files changed")))
        signature = yield list(client.events)
        client.answer(turn.reply, signature)


# --- strategies --------------------------------------------------------------------------------------------

_WORDS = st.sampled_from(["go on", "look at 天气 🌤", "a\tb\n\nc", 'quote " and \\ slash /', "half \ud83d", "é"])
_SIZES = st.sampled_from([0, 0, 60, 300, 900, 3000])


def scripts(wire: Wire | None = None) -> st.SearchStrategy[Script]:
    """Draw whole sessions, as one wire can hold them; without a wire, as all three can."""
    pictured = st.just(False) if wire in (None, "chat") else st.booleans()
    reasonings = REASONINGS[wire] if wire else ("none", "signed")
    uses = st.builds(Use, size=_SIZES, own=st.integers(0, 7).map(lambda n: n == 0), pictured=pictured)
    steps = st.builds(
        Step,
        answer=st.builds(
            Answer, thinks=st.booleans(), says=st.booleans(), uses=st.lists(uses, min_size=1, max_size=3).map(tuple)
        ),
        reverse=st.booleans(),
        reminded=st.booleans(),
    )
    turns = st.builds(
        Turn,
        words=_WORDS,
        size=_SIZES,
        image=st.booleans(),
        reminded=st.booleans(),
        steps=st.lists(steps, max_size=6).map(tuple),
        reply=st.builds(Answer, thinks=st.booleans()),
        rewinds_to=st.one_of(st.none(), st.none(), st.integers(0, 3)),
    )
    styles = st.builds(
        Style,
        tools=st.integers(0, 7).map(lambda n: n > 0),
        system=st.booleans(),
        escapes=st.booleans(),
        spaced=st.booleans(),
    )
    return st.builds(
        Script,
        turns=st.lists(turns, min_size=1, max_size=6).map(tuple),
        reasoning=st.sampled_from(reasonings),
        style=styles,
        numbers_anew=st.booleans() if wire == "chat" else st.just(False),
    )
