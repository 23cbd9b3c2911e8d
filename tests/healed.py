"""Stand an invented client before real sessions and the strict provider, without a network; let anything happen."""

import contextlib
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

import apsw
from openmem_addon.core import adapter
from openmem_addon.core.usage import Usage
from openmem_addon.session import Inbound

from fixtures.provider import binding, cache
from fixtures.provider.anthropic import Messages
from fixtures.provider.behaviour import Behaviour
from fixtures.provider.endpoint import Denial, Incoming
from fixtures.provider.rules import table
from fixtures.provider.rules.request import Request
from fixtures.provider.scenario import Step
from fixtures.provider.wire import THINKING, Json
from tests.addon.house import SID, House
from tests.conversations import CHECKED, OLDER, Script, talk, user, written

HEADERS = {"x-api-key": "invented", "anthropic-version": "2023-06-01", "x-claude-code-session-id": SID}

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"

MOST_ASKED = 6
"""Times one request is asked: once, and once for each remedy there is."""

SMALL: dict[str, object] = {"trim_tokens": 400, "compress_tokens": 700}
"""Limits that a conversation of a few messages reaches."""


SWITCHES: tuple[dict[str, object], ...] = (
    {},
    {"mode": "observe"},
    {"mode": "trim"},
    {"proxy_enabled": False},
    {"proxy_enabled": True},
)
"""What a person may change between two requests."""


class Refused(Exception):
    """The client saw a refusal."""

    def __init__(self, denial: Denial, *, alike: bool) -> None:
        """`alike`: its request would have met one with nobody between."""
        super().__init__(denial.message)
        self.alike = alike


class Upstream:
    """The strict provider, perhaps behind a gateway that does not know the valve."""

    def __init__(self, behaviour: Behaviour, *, knows_valve: bool = True) -> None:
        self._behaviour = behaviour
        self._knows_valve = knows_valve
        self._messages = Messages(behaviour)
        self._number = 0
        self.bound = False
        """It has refused reasoning of another prefix."""

    def ask(self, body: Json, headers: Mapping[str, str], path: str) -> Denial | Usage:
        self._number += 1
        if "block_binding" in body.get("thinking", {}):
            assert self.bound, "the valve was sent unasked"
            if not self._knows_valve:
                message = "thinking.adaptive.block_binding: Extra inputs are not permitted"
                return Denial(status=400, type="invalid_request_error", message=message)
        opened = self._messages.open(Incoming(body=body, headers=headers, path=path, number=self._number, now=0.0))
        if isinstance(opened, Denial):
            self.bound = self.bound or opened.rule == "thinking_binding"
            return opened
        if opened.counted is not None:
            return Usage()
        counts = opened.answer(Step(text="."), 0).usage
        read, written = counts["cache_read_input_tokens"], counts["cache_creation_input_tokens"]
        return Usage(input_tokens=counts["input_tokens"], cache_read_tokens=read, cache_creation_tokens=written)

    def would_refuse(self, body: Json, *, counting: bool) -> bool:
        """Return whether a request is refused for what the client itself did: its reasoning fits its own history."""
        asked = Request(
            body=body,
            headers=HEADERS,
            verdict=binding.Verdict(),
            prompt_tokens=sum(unit.tokens for unit in cache.prompt(body)),
            context_tokens=self._behaviour.context_tokens,
            counting=counting,
        )
        return table.refuse(asked) is not None


class Between:
    """A house of sessions, driven as the proxy drives it; can be closed, and opened again with other settings."""

    def __init__(self, root: Path, upstream: Upstream, **settings: object) -> None:
        self.upstream = upstream
        self.lines: list[str] = []
        self._root = root
        self._settings = {**SMALL, **settings}
        self.house = House(root, **self._settings)

    def close(self) -> None:
        self.house.close()
        self.lines += self.house.lines

    def restart(self, *, lost: bool = False, **settings: object) -> None:
        """Begin anew with what is on disk, `lost` without the state file; the rows then tell that there was one."""
        self.close()
        if lost and self.house.rows():
            self.house.layout.trim(SID).unlink(missing_ok=True)
        self._settings |= settings
        self.house = House(self._root, **self._settings)

    async def send(self, came: bytes, *, path: str = MESSAGES, headers: Mapping[str, str] | None = None) -> Json:
        """Return the body that was accepted. Raises Refused for a refusal that reaches the client."""
        route = adapter.for_path(path)
        assert route is not None
        inbound = Inbound(route, {**HEADERS, **(headers or {})}, came)
        sessions = self.house.sessions
        for _ in range(MOST_ASKED):
            outcome = await sessions.handle(inbound)
            left, beta = json.loads(outcome.body), {"anthropic-beta": outcome.beta} if outcome.beta else {}
            answer = self.upstream.ask(left, {**inbound.headers, **beta}, path)
            if isinstance(answer, Usage):
                self.house.answer(outcome, answer)
                return left
            healed = outcome.ticket is not None and await sessions.heal(
                outcome.ticket, inbound, status=answer.status, refusal=error(answer), sent=outcome.body
            )
            if outcome.ticket is not None:
                self.house.refuse(outcome)
            if not healed:
                alike = self.upstream.would_refuse(json.loads(came), counting=route.counts)
                raise Refused(answer, alike=alike or (outcome.ticket is None and outcome.body == came))
        raise AssertionError("the same request was asked for ever")


def error(denial: Denial) -> bytes:
    """Return the body of a refusal."""
    return json.dumps({"type": "error", "error": {"type": denial.type, "message": denial.message}}).encode()


def without_thinking(body: Json) -> Json:
    """Return a request as a client sends it that was refused for its reasoning."""

    def bare(message: Json) -> Json:
        if message["role"] != "assistant":
            return message
        return {**message, "content": [b for b in message["content"] if b["type"] not in THINKING] or "[no text]"}

    return {**body, "messages": [bare(message) for message in body["messages"]]}


def bypassing(upstream: Upstream, body: Json) -> Json:
    """Return what the provider accepted of a request that did not come through us."""
    for form in (body, without_thinking(body)):
        answer = upstream.ask(form, HEADERS, MESSAGES)
        if isinstance(answer, Usage):
            return form
    raise Refused(answer, alike=True)


@contextlib.contextmanager
def failing(where: str) -> Iterator[None]:
    """Let a part of ours fail for one request."""
    fault: BaseException = apsw.FullError("disk full")
    match where:
        case "rows":
            target = "openmem_store.writer.SessionWriter.sync"
        case "state":
            target, fault = "openmem_addon.trimstate.write", OSError(28, "no space")
        case _:
            target, fault = "openmem_addon.core.rewrite.decide", RuntimeError("a fault of ours")
    with patch(target, side_effect=fault):
        yield


async def play(script: Script, between: Between, chance: random.Random) -> int:
    """Play a session in which anything may happen; return how many requests the provider accepted.

    Raises Refused for a refusal that the client would not have met without us.
    """
    client = talk(script)
    accepted = 0
    forwarded: Json | None = None
    manual = script.manual
    with contextlib.suppress(StopIteration):
        while True:
            request = client.send(forwarded) if forwarded is not None else next(client)
            if chance.random() < 0.1:
                manual = not manual
            request["model"] = OLDER if manual else CHECKED
            request["thinking"] = {"type": "enabled", "budget_tokens": 1024} if manual else {"type": "adaptive"}
            try:
                forwarded = await _one(script, between, chance, request)
            except Refused as refused:
                if refused.alike:
                    return accepted
                raise
            accepted += 1
    return accepted


async def _one(script: Script, between: Between, chance: random.Random, request: Json) -> Json:
    came = written(script, request)
    if chance.random() < 0.15:
        between.restart(lost=chance.random() < 0.3, **chance.choice(SWITCHES))
    if chance.random() < 0.1:
        return bypassing(between.upstream, json.loads(came))
    if chance.random() < 0.1:
        await between.send(came, path=COUNT)
    if chance.random() < 0.05:
        summary = {**request, "messages": [*request["messages"], user("summarise")]}
        try:
            await between.send(written(script, summary), headers={"x-claude-code-compaction": "auto"})
        except Refused as refused:
            if not refused.alike:
                raise
    if chance.random() < 0.1:
        between.house.layout.force(SID).touch()
    if chance.random() < 0.1:
        with failing(chance.choice(("rows", "state", "ours"))):
            accepted = await between.send(came)
            await between.house.settle()
        return accepted
    return await between.send(came)
