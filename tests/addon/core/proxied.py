"""Stand between an invented client and the strict provider as a session does, without files or clock."""

import json
import random
from collections import Counter
from collections.abc import Iterable

import msgspec
from openmem_addon.core import anthropic, rewrite, source, texts
from openmem_addon.core.model import Conversation
from openmem_addon.core.rewrite import Policy, Rewrite
from openmem_addon.core.view import Sample
from openmem_addon.trimstate import TrimState
from openmem_store.rows import chain

from fixtures.provider import binding, cache, wire
from fixtures.provider.rules import table
from fixtures.provider.rules.request import Request
from fixtures.provider.wire import Json
from tests.conversations import Script, marks, talk, written

HEADERS = {"x-api-key": "invented", "anthropic-version": "2023-06-01"}

SMALL = Policy(
    sid="s-1",
    may_change=True,
    force=False,
    instruct=True,
    require_tools=True,
    trim_tokens=400,
    tail_tokens=120,
    compress_tokens=700,
    chars_per_token=2.5,
)
"""Limits that a conversation of a few messages reaches."""


class Sent(msgspec.Struct, frozen=True):
    """One request on its way to the provider."""

    inbound: Json
    came: bytes
    forwarded: Json
    left: bytes
    conversation: Conversation
    decided: Rewrite
    units: tuple[str, ...]
    """What names each prefix of the forwarded prompt; the provider's cache compares these."""
    came_units: tuple[str, ...]
    """The same of the client's own."""
    tokens: int
    """What the provider counts of the forwarded prompt."""


def decoded(body: bytes) -> Json:
    return json.loads(body)


def sent(came: bytes, conversation: Conversation, decided: Rewrite) -> Sent:
    """Return a decided request, rendered."""
    left = anthropic.render(conversation, decided.rendering)
    forwarded = decoded(left)
    inbound = decoded(came)
    prompt = cache.prompt(forwarded)
    return Sent(
        inbound,
        came,
        forwarded,
        left,
        conversation,
        decided,
        units=tuple(unit.digest for unit in prompt),
        came_units=tuple(unit.digest for unit in (prompt if left == came else cache.prompt(inbound))),
        tokens=sum(unit.tokens for unit in prompt),
    )


def refusal(forwarded: Json, *, counting: bool = False) -> str | None:
    """Return what the strict provider says against a request, None where it accepts it."""
    verdict = binding.check(forwarded, HEADERS, account="new")
    found = table.refuse(
        Request(
            body=forwarded,
            headers=HEADERS,
            verdict=verdict,
            prompt_tokens=0,
            context_tokens=1_000_000,
            counting=counting,
        )
    )
    return None if found is None else f"{found[0].name}: {found[1]}"


class Proxied:
    """One lane of one session: threads, samples, and restarts."""

    def __init__(self, policy: Policy = SMALL) -> None:
        self.policy = policy
        self.state = TrimState()
        self.former: Sent | None = None

    def restart(self) -> None:
        """Lose what is not in the state file."""
        self.state = msgspec.json.decode(self.state.encoded(), type=TrimState)
        self.former = None

    def send(self, came: bytes, *, may_change: bool = True, force: bool = False) -> Sent:
        former = self.former
        conversation = anthropic.parse(came, former.conversation if former else None)
        key = f"main/{rewrite.root(conversation)}"
        decided = rewrite.decide(
            conversation,
            self.state.threads.get(key),
            msgspec.structs.replace(self.policy, may_change=may_change, force=force),
            sample=self.state.sample(key, conversation.model),
            known_rows=former.decided.rows if former else (),
        )
        made = sent(came, conversation, decided)
        check_read(made)
        self.state.publish(key, decided.thread)
        self.former = made
        return made

    def answered(self, made: Sent) -> None:
        """Calibrate by what the provider counts of a request."""
        key = f"main/{made.decided.root}"
        self.state.calibrate(key, made.conversation.model, Sample(made.tokens, made.decided.chars, made.decided.media))


# --- what must hold of every request -----------------------------------------------------------------------


def pieces(body: bytes) -> list[bytes]:
    """Return the source of each message."""
    start, stop = source.members(source.readable(body))["messages"]
    inner = source.readable(body)[start:stop]
    return [body[start + a : start + b] for a, b in source.elements(inner)]


def strings(value: object) -> str:
    """Return every string of a JSON value, one a line."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "\n".join(map(strings, value.values()))
    return "\n".join(map(strings, value)) if isinstance(value, list) else ""


def count_markers(request: Json) -> int:
    return sum(1 for _ in wire.markers(request)) + isinstance(request.get("cache_control"), dict)


READ = (*(field for field in Conversation.__struct_fields__ if field not in ("reader", "shared")),)
"""What a request is read as, apart from how it was read."""


def check_read(made: Sent) -> None:
    """Assert that a request read from where it parts from the one before is read as if it were the first."""
    afresh = anthropic.parse(made.came)
    for field in READ:
        assert getattr(made.conversation, field) == getattr(afresh, field), field
    assert made.decided.rows == chain(draft for item in afresh.items if item.stored for draft in item.drafts)


def check(made: Sent) -> None:
    """Assert what holds of every forwarded request, whatever came before it."""
    refused = refusal(made.forwarded)
    assert refused is None, refused
    assert count_markers(made.forwarded) <= count_markers(made.inbound)
    decided, view = made.decided, made.decided.view
    if not decided.changes_body:
        assert made.left == made.came
    _check_weight(made)
    _check_only_ours_changed(made)
    _check_assistant_bytes(made)
    _check_rows(made)
    turns = [item.source for item in made.conversation.items if item.kind == "turn"]
    if turns:
        first = decoded(turns[0])["content"]
        shown = "\n".join(strings(message) for message in made.forwarded["messages"])
        assert set(marks(strings(first))) <= set(marks(shown))
    if view.cut is not None:
        opening = [m for m in made.forwarded["messages"] if view.note in strings(m.get("content"))]
        assert len(opening) == 1
        assert opening[0]["role"] == "user"
        assert opening[0]["content"][0] == {"type": "text", "text": view.note}
    if not decided.rendering.moved:
        assert made.forwarded["messages"][-1]["role"] == made.inbound["messages"][-1]["role"]


def _check_weight(made: Sent) -> None:
    """What a request is said to weigh is what is counted of the forwarded body itself."""
    left = anthropic.parse(made.left)
    unsaid = len(texts.NO_TEXT) * len(made.decided.rendering.emptied)
    assert made.decided.chars == left.head_chars + left.totals.chars[-1] - unsaid
    assert made.decided.media == left.head_media + left.totals.media[-1]


def _check_only_ours_changed(made: Sent) -> None:
    """A message that no rule touches keeps every byte, and none is invented."""
    rendering = made.decided.rendering
    touched = {*rendering.stripped, *rendering.compressed}
    touched |= {rendering.noted} if rendering.noted is not None else set()
    before, after = pieces(made.came), pieces(made.left)
    extra = Counter(after) - Counter(before)
    moved = 1 if rendering.moved else 0
    assert sum(extra.values()) <= len(touched & set(rendering.kept)) + moved
    untouched = [index for index in rendering.kept if index not in touched]
    if not rendering.moved:
        assert not Counter(before[index] for index in untouched) - Counter(after)
    last = len(before) - 1
    if last not in touched and not (rendering.moved and made.inbound["messages"][-1]["role"] == "system"):
        assert after[-1] == before[-1] or rendering.moved


def _check_assistant_bytes(made: Sent) -> None:
    """What the model wrote is sent back as it came, or not at all."""

    def blocks(request: Json) -> Counter[str]:
        return Counter(
            json.dumps(block)
            for message in request["messages"]
            if message["role"] == "assistant"
            for block in wire.blocks(message["content"])
        )

    extra = blocks(made.forwarded) - blocks(made.inbound)
    assert set(extra) <= {json.dumps({"type": "text", "text": "[no text]"})}


def _check_rows(made: Sent) -> None:
    """A row is out of context exactly where its text is out of the prompt."""
    shown = set(marks("\n".join(strings(message) for message in made.forwarded["messages"])))
    for place, row in enumerate(made.decided.rows):
        names = list(marks(row.text))
        if names:
            assert (names[0] not in shown) == (place in made.decided.dropped), row
    if made.decided.dropped and any(row.kind != "thinking" for row in _dropped(made)):
        assert "[openmem: continuing session s-1; " in strings(made.forwarded)


def _dropped(made: Sent) -> Iterable:
    return (made.decided.rows[place] for place in made.decided.dropped)


def check_follows(before: Sent, made: Sent) -> None:
    """Assert that a request extends the one before it, unless a trim lies between."""
    if made.decided.trim is None and extends(before, made):
        assert made.units[: len(before.units)] == before.units
    old, new = before.decided.view, made.decided.view
    if old.cut is not None and old.cut == new.cut and old.gap and extends(before, made):
        assert new.gap is not None
        assert new.gap[0] == old.gap[0]
        assert new.gap[1] >= old.gap[1]


def extends(before: Sent, made: Sent) -> bool:
    """Return whether the client's own history only grew."""
    return made.came_units[: len(before.came_units)] == before.came_units


def play(script: Script, *, proxied: Proxied | None = None, chance: random.Random | None = None) -> list[Sent]:
    """Play a script through the core and check every request; `chance` decides outages and restarts."""
    proxied = proxied or Proxied()
    chance = chance or random.Random(0)
    client = talk(script)
    history: list[Sent] = []
    forwarded: Json | None = None
    try:
        while True:
            request = client.send(forwarded) if forwarded is not None else next(client)
            came = written(script, request)
            made = proxied.send(came, may_change=chance.random() > 0.1, force=chance.random() < 0.05)
            check(made)
            if history:
                check_follows(history[-1], made)
            if chance.random() < 0.3:
                proxied.restart()
                assert proxied.send(came, may_change=False).left == made.left
            history.append(made)
            proxied.answered(made)
            forwarded = made.forwarded
    except StopIteration:
        return history
