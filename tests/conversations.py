"""Invent conversations of a coding agent on the Anthropic Messages wire, legal by construction.

`scripts()` draws what people and model do; `talk` plays one script as the client would: it yields
each request and takes back what was forwarded, because a thinking block's signature is bound to
that. Every text opens with a mark of its own, `⟦7⟧`, by which a test finds it again.
"""

import copy
import json
from collections.abc import Generator, Iterator
from itertools import count
from typing import Any, Literal

import msgspec
from hypothesis import strategies as st

from fixtures.provider import binding
from fixtures.provider.wire import Json

CHECKED = "claude-opus-5-5"
"""Runs the prefix check; thinks adaptively."""

OLDER = "claude-opus-4-6"
"""Runs no prefix check, but demands thinking at the head of a running tool loop."""

SEARCH = "mcp__openmem__smart_compact_search"
LATER = "mcp__notes__later"
"""A deferred tool that is not ours."""

MARK = {"type": "ephemeral"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAGQAAADICAIAAACRcFC9AAAAAElFTkSuQmCC"
"""The head of a PNG of 100 × 200 pixels."""

ENCRYPTED = "c2VjcmV0" * 12
BIG = 1_600
"""Half the code points of a result long enough to be compressed."""


class Call(msgspec.Struct, frozen=True):
    """One tool call and the form of its result."""

    form: Literal["string", "blocks", "two", "image", "reference", "own_reference", "empty", "absent", "own"]
    big: bool = False
    error: bool = False


class Answer(msgspec.Struct, frozen=True):
    """What the model says between two requests."""

    thinking: Literal["none", "shown", "omitted", "redacted"] = "none"
    text: str | None = "done"
    server: bool = False
    """A server tool was used inside the answer."""
    calls: tuple[Call, ...] = ()


class Step(msgspec.Struct, frozen=True):
    """One tool exchange."""

    answer: Answer
    reverse: bool = False
    """Results in another order than the calls."""
    after: Literal["", "text", "reminder", "wrapper", "system", "teaching", "directive"] = ""
    """What follows the results: parts of the same message, a message, or a system message."""


class Turn(msgspec.Struct, frozen=True):
    """A user's turn and all that follows until the next."""

    text: str
    image: bool = False
    reminder: bool = False
    """A wrapper block in the same message."""
    before: Literal["", "wrapper"] = ""
    after: Literal["", "system", "two systems", "teaching", "directive"] = ""
    steps: tuple[Step, ...] = ()
    final: Answer = Answer()
    pauses: bool = False
    """The final answer comes in two messages, the first resumed as it stands."""
    rewinds_to: int | None = None
    """First the client goes back to the beginning of that earlier turn."""
    repeats: bool = False
    """The turn's first request is sent twice."""


class Script(msgspec.Struct, frozen=True):
    """A whole session."""

    turns: tuple[Turn, ...]
    tools: Literal["listed", "deferred", "none"] = "listed"
    manual: bool = False
    """Thinking by a fixed budget on an older model."""
    system: Literal["string", "blocks", "billing", "empty", "absent"] = "string"
    escapes: bool = False
    """Non-ASCII leaves escaped, lone surrogates among it."""
    spaced: bool = False
    """The client writes blanks after separators."""


# --- one message -------------------------------------------------------------------------------------------


def text(value: str, **more: object) -> Json:
    return {"type": "text", "text": value, **more}


def user(*blocks: Json | str) -> Json:
    return {"role": "user", "content": [text(block) if isinstance(block, str) else block for block in blocks]}


def assistant(*blocks: Json | str) -> Json:
    return {**user(*blocks), "role": "assistant"}


def system(*blocks: Json | str, **more: object) -> Json:
    return {**user(*blocks), "role": "system", **more}


def use(name: str, tool: str = "Read", **more: object) -> Json:
    return {"type": "tool_use", "id": name, "name": tool, "input": {"path": "a.txt"}, **more}


def result(name: str, content: object = "done", **more: object) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def thinking(value: str = "a thought", signature: str = "sig") -> Json:
    return {"type": "thinking", "thinking": value, "signature": signature}


def tool(name: str, **more: object) -> Json:
    return {"name": name, "description": f"The tool {name}.", "input_schema": {"type": "object"}, **more}


TOOLS = (tool("Read"), tool("ToolSearch"))


def body(*messages: Json, **more: Any) -> Json:
    """Return a request; without `tools` it offers our search."""
    given = {"model": CHECKED, "max_tokens": 1000, "messages": list(messages), "tools": [*TOOLS, tool(SEARCH)], **more}
    return {key: value for key, value in given.items() if value is not None}


def encode(request: Json) -> bytes:
    """Return a request as an agent writes it."""
    return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode()


def loop(steps: int, *, size: int = 200, ask: str = "read them all", thinks: bool = False) -> list[Json]:
    """Return one user turn with `steps` tool exchanges."""
    messages = [user(ask)]
    for number in range(steps):
        mind = [thinking(f"step {number}", f"sig-{number}")] if thinks else []
        messages.append(assistant(*mind, use(f"toolu_{ask[:3].strip()}{number}")))
        messages.append(user(result(f"toolu_{ask[:3].strip()}{number}", f"result {number} " + "x" * size)))
    return messages


def chat(turns: int, *, size: int = 200, start: int = 0) -> list[Json]:
    """Return `turns` questions with a final reply each."""
    return [
        message
        for number in range(start, start + turns)
        for message in (user(f"question {number} " + "q" * size), assistant(f"answer {number} " + "a" * size))
    ]


# --- playing a script --------------------------------------------------------------------------------------


class _Player:
    """One client with its history."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.messages: list[Json] = []
        self._marks = count(1)
        self._calls = count(1)
        self._requests = count(1)

    def say(self, value: str) -> str:
        return f"⟦{next(self._marks)}⟧ {value}"

    def request(self) -> Json:
        """Return the request of the history as it stands, marked and written as a client does."""
        number = next(self._requests)
        messages = copy.deepcopy(self.messages)
        for place, message in enumerate(messages):
            blocks = message["content"]
            if place == len(messages) - 1 and blocks and blocks[-1]["type"] in ("text", "tool_result", "image"):
                blocks[-1]["cache_control"] = MARK
            elif message["role"] != "assistant" and len(blocks) == 1 and blocks[0]["type"] == "text":
                message["content"] = blocks[0]["text"]
        request = body(*messages, model=OLDER if self.script.manual else CHECKED, tools=self._tools())
        head = self._system(number)
        if head is not None:
            request["system"] = head
        kind = {"type": "enabled", "budget_tokens": 1024} if self.script.manual else {"type": "adaptive"}
        request["thinking"] = kind
        return request

    def _tools(self) -> list[Json]:
        own = {"listed": [tool(SEARCH)], "deferred": [tool(SEARCH, defer_loading=True)], "none": []}
        return [*TOOLS, *own[self.script.tools], tool(LATER, defer_loading=True)]

    def _system(self, number: int) -> object:
        match self.script.system:
            case "string":
                return "You are an agent."
            case "blocks":
                return [text("You are an agent."), text("Be brief.", cache_control=MARK)]
            case "billing":
                return [text(f"x-anthropic-billing-header: cch={number:05};"), text("You are an agent.")]
            case "empty":
                return []
            case _:
                return None

    def open(self, turn: Turn) -> None:
        if turn.before == "wrapper":
            self.messages.append(user(f"<task-notification>{self.say('a task ended')}</task-notification>"))
        blocks: list[Json | str] = [self.say(turn.text)]
        if turn.reminder:
            blocks.insert(0, f"<system-reminder>{self.say('keep it short')}</system-reminder>")
        if turn.image:
            source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
            blocks.append({"type": "image", "source": source})
        self.messages.append(user(*blocks))
        first = len(self.messages) == (2 if turn.before else 1)
        if first and self.script.tools == "deferred":
            note = self.say(f"Deferred tools, loaded by ToolSearch: {SEARCH}, {LATER}")
            self.messages.append(system(note, output_config={"effort": "high"}))
        elif turn.after:
            self._system_messages(turn.after)

    def _system_messages(self, kind: str) -> None:
        match kind:
            case "two systems":
                self.messages += [system(self.say("one note")), system(self.say("another note"))]
            case "teaching":
                self.messages.append(system(self.say(f"Deferred tools now: {SEARCH}")))
            case "directive":
                self.messages.append(system(output_config={"effort": "low"}))
            case _:
                self.messages.append(system(self.say("a note")))

    def answer(self, forwarded: Json, answer: Answer) -> list[str]:
        """Append the model's answer to a forwarded request; return the ids of its calls."""
        blocks: list[Json | str] = []
        kind = "shown" if self.script.manual else answer.thinking
        if kind != "none":
            blocks.append(self._thinking(forwarded, kind))
        if answer.server:
            name = f"srvtoolu_{next(self._calls)}"
            found = {"type": "web_search_result", "url": "https://example.com", "encrypted_content": ENCRYPTED}
            blocks.append({"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": "x"}})
            blocks.append({"type": "web_search_tool_result", "tool_use_id": name, "content": [found]})
        if answer.text is not None:
            blocks.append(self.say(answer.text))
        ids = [f"toolu_{next(self._calls)}" for _ in answer.calls]
        for name, call in zip(ids, answer.calls, strict=True):
            blocks.append(use(name, _TOOL_OF.get(call.form, "Read"), input={"path": self.say("a.txt"), "n": 1}))
        self.messages.append(assistant(*(blocks or [self.say("nothing")])))
        return ids

    def _thinking(self, forwarded: Json, kind: str) -> Json:
        value = self.say("a thought")
        shown = value if kind == "shown" else ""
        signature, _ = binding.sign(forwarded, text=value, shown=shown, tokens=7)
        if kind == "redacted":
            return {"type": "redacted_thinking", "data": signature}
        return thinking(shown, signature)

    def results(self, ids: list[str], step: Step) -> None:
        made = [self._result(name, call) for name, call in zip(ids, step.answer.calls, strict=True)]
        blocks: list[Json | str] = [*(reversed(made) if step.reverse else made)]
        match step.after:
            case "text":
                blocks.append(self.say("and look closer"))
            case "reminder":
                blocks.append(f"<system-reminder>{self.say('files changed')}</system-reminder>")
            case _:
                pass
        self.messages.append(user(*blocks))
        if step.after == "wrapper":
            self.messages.append(user(f"<task-notification>{self.say('done')}</task-notification>"))
        elif step.after in ("system", "teaching", "directive"):
            self._system_messages(step.after)

    def _result(self, name: str, call: Call) -> Json:
        words = self.say("found" + (" 行" * BIG if call.big else ""))
        content: object = words
        match call.form:
            case "blocks" | "own":
                content = [text(words)]
            case "two":
                content = [text(words), text(self.say("and more"))]
            case "image":
                source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
                content = [text(words), {"type": "image", "source": source}]
            case "reference":
                content = [{"type": "tool_reference", "tool_name": LATER}]
            case "own_reference":
                content = [{"type": "tool_reference", "tool_name": LATER if self.script.tools == "none" else SEARCH}]
            case "empty":
                content = ""
            case _:
                pass
        made = result(name, content)
        if call.form == "absent":
            del made["content"]
        if call.error and call.form in ("string", "blocks", "two"):
            made["is_error"] = True
        return made

    def pause(self, forwarded: Json) -> None:
        """Append the first half of an answer that the provider paused."""
        name = f"srvtoolu_{next(self._calls)}"
        begun = {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": "y"}}
        blocks: list[Json | str] = [begun] if self.script.manual else [self._thinking(forwarded, "shown"), begun]
        self.messages.append(assistant(*blocks))

    def resume(self) -> None:
        """Append its second half."""
        name = self.messages[-1]["content"][-1]["id"]
        found = {"type": "web_search_tool_result", "tool_use_id": name, "content": []}
        self.messages.append(assistant(found, self.say("found it")))


_TOOL_OF = {"reference": "ToolSearch", "own_reference": "ToolSearch", "own": SEARCH}


def talk(script: Script) -> Generator[Json, Json]:
    """Play a script: yield each request, take what was forwarded of it."""
    client = _Player(script)
    starts: list[int] = []
    for turn in script.turns:
        if turn.rewinds_to is not None and turn.rewinds_to < len(starts):
            del client.messages[starts[turn.rewinds_to] :]
            del starts[turn.rewinds_to :]
        starts.append(len(client.messages))
        client.open(turn)
        if turn.repeats:
            yield client.request()
        for step in turn.steps:
            forwarded = yield client.request()
            client.results(client.answer(forwarded, step.answer), step)
        forwarded = yield client.request()
        if turn.pauses:
            client.pause(forwarded)
            yield client.request()
            client.resume()
        else:
            client.answer(forwarded, turn.final)


def written(script: Script, request: Json) -> bytes:
    """Return a request in the script's way of writing JSON."""
    separators = (", ", ": ") if script.spaced else (",", ":")
    text = json.dumps(request, ensure_ascii=script.escapes, separators=separators)
    return text.encode("utf-8", "replace")


# --- strategies --------------------------------------------------------------------------------------------

_WORDS = st.sampled_from(["go on", "look at 天气 🌤", "a\tb\n\nc", 'quote " and \\ slash /', "half a pair \ud83d", "é"])

_CALLS = st.builds(
    Call,
    form=st.sampled_from(
        ["string", "string", "blocks", "two", "image", "reference", "own_reference", "empty", "absent", "own"]
    ),
    big=st.booleans(),
    error=st.booleans(),
)
_THINKING = st.sampled_from(["shown", "none", "omitted", "redacted"])


def _steps() -> st.SearchStrategy[Step]:
    answers = st.builds(
        Answer,
        thinking=_THINKING,
        text=st.one_of(st.none(), _WORDS),
        server=st.booleans(),
        calls=st.lists(_CALLS, min_size=1, max_size=3).map(tuple),
    )
    return st.builds(
        Step,
        answer=answers,
        reverse=st.booleans(),
        after=st.sampled_from(["", "", "text", "reminder", "wrapper", "system", "teaching", "directive"]),
    )


def _turns() -> st.SearchStrategy[Turn]:
    finals = st.builds(Answer, thinking=_THINKING, text=st.one_of(st.none(), _WORDS), server=st.booleans())
    return st.builds(
        Turn,
        text=_WORDS,
        image=st.booleans(),
        reminder=st.booleans(),
        before=st.sampled_from(["", "", "wrapper"]),
        after=st.sampled_from(["", "", "system", "two systems", "teaching", "directive"]),
        steps=st.lists(_steps(), max_size=6).map(tuple),
        final=finals,
        pauses=st.booleans(),
        rewinds_to=st.one_of(st.none(), st.none(), st.integers(0, 3)),
        repeats=st.booleans(),
    )


def scripts() -> st.SearchStrategy[Script]:
    """Draw whole sessions."""
    return st.builds(
        Script,
        turns=st.lists(_turns(), min_size=1, max_size=6).map(tuple),
        tools=st.sampled_from(["listed", "deferred", "none"]),
        manual=st.booleans(),
        system=st.sampled_from(["string", "blocks", "billing", "empty", "absent"]),
        escapes=st.booleans(),
        spaced=st.booleans(),
    )


def marks(value: str) -> Iterator[str]:
    """Yield the mark of each text found in a string."""
    rest = value
    while (start := rest.find("⟦")) != -1:
        stop = rest.find("⟧", start)
        yield rest[start : stop + 1]
        rest = rest[stop + 1 :]
