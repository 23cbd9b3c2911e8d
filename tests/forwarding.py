"""Stand where a session stands between an agent and a provider, on any wire, without files or clock."""

import json
from collections.abc import Mapping, Sequence

import msgspec
from openmem_addon.core import adapter, identify, lineage, rewrite, source
from openmem_addon.core.adapter import Route
from openmem_addon.core.model import Conversation
from openmem_addon.core.rewrite import Policy, Rewrite
from openmem_addon.core.view import Sample, Tail
from openmem_addon.trimstate import TrimState
from openmem_store.rows import Draft, chain

from tests.wires import Json, Wire

PATHS: dict[Wire, str] = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
}

ITEMS: dict[Wire, str] = {"anthropic": "messages", "chat": "messages", "responses": "input"}
"""Where a request holds its conversation."""

WIDE = Policy(
    sid="s-1",
    may_change=True,
    force=False,
    instruct=True,
    require_tools=True,
    trim_tokens=1_000_000,
    tail_tokens=0,
    compress_tokens=0,
    chars_per_token=2.5,
)
"""Trims only when forced, and then keeps no more than the newest steps."""


def route(wire: Wire) -> Route:
    found = adapter.for_path(PATHS[wire])
    assert found is not None
    return found


class Forwarded(msgspec.Struct, frozen=True):
    """One request as it came and as it left."""

    wire: Wire
    came: bytes
    left: bytes
    conversation: Conversation
    decided: Rewrite

    @property
    def inbound(self) -> Json:
        return json.loads(self.came)

    @property
    def outbound(self) -> Json:
        return json.loads(self.left)


class Proxied:
    """One lane of one session on one wire: its threads, what calibrates them, and the responses it may continue."""

    def __init__(self, wire: Wire, policy: Policy = WIDE, *, others: Sequence["Proxied"] = ()) -> None:
        self.wire: Wire = wire
        self.policy = policy
        self.others = others
        """Other sessions on the same disk, asked when a history comes under a new name."""
        self.state = TrimState()
        self._known: Conversation | None = None
        """The last request: what the next shares with it is not read again."""

    def restart(self) -> None:
        """Lose what is not in the state file."""
        self.state = msgspec.json.decode(self.state.encoded(), type=TrimState)
        self._known = None

    def send(self, came: bytes, *, may_change: bool = True, force: bool = False) -> Forwarded:
        """Forward a request of the main lane and move the state as if the provider accepted it."""
        conversation = self._read(came)
        if conversation.previous is not None:
            return self._continue(came, conversation, conversation.previous)
        root = rewrite.root(conversation)
        key = f"main/{root}"
        thread = self.state.threads.get(key)
        if thread is None and root is not None and any(item.kind == "assistant" for item in conversation.items):
            for session in (self, *self.others):
                threads = list(reversed(session.state.threads.items()))
                found = lineage.inherited(conversation, root, threads)
                if found is not None:
                    thread = session.state.threads[found]
                    break
        policy = msgspec.structs.replace(self.policy, may_change=may_change, force=force)
        sample = self.state.sample(key, conversation.model)
        decided = rewrite.decide(conversation, thread, policy, sample=sample)
        if root is None:  # a request without a row has no thread
            return Forwarded(self.wire, came, came, conversation, decided)
        self.state.publish(key, decided.thread)
        return self._rendered(came, conversation, decided)

    def peek(self, came: bytes) -> Forwarded:
        """Forward a request that moves no state: a token count, or a client's own compaction."""
        conversation = self._read(came)
        key = self.state.find("main", rewrite.root(conversation) or "")
        policy = msgspec.structs.replace(self.policy, may_change=False)
        thread = self.state.threads[key] if key else None
        return self._rendered(came, conversation, rewrite.decide(conversation, thread, policy, sample=None))

    def answered(self, made: Forwarded, prompt: int) -> None:
        """Calibrate by what the provider counts of a request."""
        key = f"main/{made.decided.root}"
        self.state.calibrate(key, made.conversation.model, Sample(prompt, made.decided.chars, made.decided.media))

    def refused(self, made: Forwarded, before: TrimState) -> None:
        """Take back what the state says was sent."""
        key = f"main/{made.decided.root}"
        old = before.threads.get(key)
        thread = self.state.threads[key]
        self.state.threads[key] = msgspec.structs.replace(thread, sent=old.sent if old else None)

    def keep(self, response: str, made: Forwarded, output: Sequence[Draft]) -> None:
        """Remember where the rows of a response end that the provider keeps."""
        rows = (*made.decided.rows, *chain(output, previous=made.decided.rows[-1].fingerprint))
        self.state.keep_tail(response, Tail(f"main/{made.decided.rows[0].thread}", rows[-1].fingerprint))

    def _read(self, came: bytes) -> Conversation:
        self._known = route(self.wire).adapter.parse(came, self._known)
        return self._known

    def _continue(self, came: bytes, conversation: Conversation, previous: str) -> Forwarded:
        tail = self.state.tails[previous]
        decided = rewrite.continued(conversation, self.state.threads[tail.key], tail, self.policy)
        return self._rendered(came, conversation, decided)

    def _rendered(self, came: bytes, conversation: Conversation, decided: Rewrite) -> Forwarded:
        left = route(self.wire).adapter.render(conversation, decided.rendering)
        return Forwarded(self.wire, came, left, conversation, decided)


def facts(made: Forwarded) -> Json:
    """Return what must be the same on every wire."""
    rows = [(row.fingerprint, row.role, row.kind, row.name, row.text) for row in made.decided.rows]
    decided = made.decided
    return {"rows": rows, "dropped": decided.dropped, "cut_row": decided.cut_row, "blobs": decided.blob_ids}


def elements(wire: Wire, body: bytes) -> list[bytes]:
    """Return the source of each message or item of a request; a string input is one."""
    readable = source.readable(body)
    start, stop = source.members(readable)[ITEMS[wire]]
    if readable[start:stop].startswith(b'"'):
        return [body[start:stop]]
    return [body[start + a : start + b] for a, b in source.elements(readable[start:stop])]


def others(wire: Wire, body: bytes, *names: str) -> dict[str, bytes]:
    """Return the source of every other member of a request, those of `names` left out too."""
    spans = source.members(source.readable(body))
    return {key: body[a:b] for key, (a, b) in spans.items() if key != ITEMS[wire] and key not in names}


def session_of(wire: Wire, body: bytes, headers: Mapping[str, str] | None = None) -> str | None:
    """Return the session a request names."""
    return identify.session_id(headers or {}, route(wire).adapter.parse(body))
