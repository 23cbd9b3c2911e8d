"""Prove on all three wires, over invented sessions, what must hold of whatever we forward.

`OPENMEM_EXAMPLES` sets how many sessions are invented for each property.
"""

import json
import os
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openmem_addon.core import texts
from openmem_addon.core.model import Conversation
from openmem_addon.core.source import NotSplicable
from openmem_addon.core.view import KEPT_VIEWS

from tests import wires
from tests.forwarding import ITEMS, WIDE, Forwarded, Proxied, elements, facts, others, route
from tests.verdict import refusal
from tests.wires import WIRES, Event, Script, Wire, faults, items_of, marks, sign, signatures

EXAMPLES = int(os.environ.get("OPENMEM_EXAMPLES", "100"))

invented = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

FATES = ("", "", "", "restart", "force", "outage", "missed", "refused", "counted", "forked")
"""What befalls a request besides being sent."""


def policies() -> st.SearchStrategy[Any]:
    """Draw limits that a conversation of a few messages reaches."""
    return st.builds(
        lambda threshold, compress: msgspec.structs.replace(
            WIDE, trim_tokens=threshold, tail_tokens=int(threshold * 0.3), compress_tokens=compress
        ),
        threshold=st.sampled_from([150, 400, 900, 2500]),
        compress=st.sampled_from([0, 700]),
    )


class Session:
    """One agent's session through us, checked request by request."""

    def __init__(self, wire: Wire, script: Script, policy: Any) -> None:
        self.wire: Wire = wire
        self.script = script
        self.proxied = Proxied(wire, policy)
        self.before: Forwarded | None = None
        """The last request, None where it did not pass us."""
        self.last: Forwarded | None = None
        """The last one that did."""
        self.trims = 0

    def request(self, events: list[Event], fate: str) -> str | None:
        """Send one request; return the digest of the prompt the provider got, None where the session must end.

        It ends where a person goes back further than the views a thread remembers: the reasoning
        that was produced under a forgotten one can only be healed.
        """
        came = wires.written(self.wire, events, self.script.style)
        if self._forgot(came):
            return None
        raw = json.loads(came)
        if fate == "missed" and (self.last is None or extends(self.last, came)):
            self.before = None
            return sign(self.wire, raw)
        if fate == "forked" and self._known(came):
            policy = msgspec.structs.replace(self.proxied.policy, sid="s-2")
            self.proxied = Proxied(self.wire, policy, others=[self.proxied])
        if fate == "refused":
            old = msgspec.json.decode(self.proxied.state.encoded(), type=type(self.proxied.state))
            self.proxied.refused(self._send(came, "force"), old)
        made = self._send(came, fate)
        if fate == "restart":
            self.proxied.restart()
        assert self.proxied.peek(came).left == made.left
        self.proxied.answered(made, made.decided.chars // 3 + made.decided.media)
        return sign(self.wire, made.outbound)

    def _forgot(self, came: bytes) -> bool:
        """Return whether a history fits none of the views that are left of more."""
        if self.last is None or extends(self.last, came):
            return False
        thread = self.last.decided.thread
        items = route(self.wire).adapter.parse(came).items
        return len(thread.views) == KEPT_VIEWS and not any(view.matches(items) for view in thread.views)

    def _known(self, came: bytes) -> bool:
        """Return whether a fork of this history can be recognised: we saw it, and its view changed it."""
        return self.before is not None and self.before.decided.changes_body and extends(self.before, came)

    def _send(self, came: bytes, fate: str) -> Forwarded:
        made = self.proxied.send(came, may_change=fate != "outage", force=fate == "force")
        check(made)
        if self.before is not None:
            check_follows(self.before, made)
        self.before = self.last = made
        self.trims += made.decided.trim is not None
        return made


def play(wire: Wire, script: Script, policy: Any, fates: list[str]) -> Session:
    session = Session(wire, script, policy)
    client = wires.talk(script)
    events = next(client)
    number = 0
    while True:
        signature = session.request(events, fates[number % len(fates)])
        if signature is None:
            return session
        number += 1
        try:
            events = client.send(signature)
        except StopIteration:
            return session


# --- what must hold of every request -----------------------------------------------------------------------


def check(made: Forwarded) -> None:
    """Assert what holds of every forwarded request, whatever came before it."""
    assert faults(made.wire, made.outbound) == []
    assert refusal(made.wire, made.outbound) is None
    if not made.decided.changes_body:
        assert made.left == made.came
    _check_bytes(made)
    _check_reasoning(made)
    _check_rows(made)
    _check_kept(made)


def _check_bytes(made: Forwarded) -> None:
    """What no rule touches keeps every byte, in its order, and nothing is invented."""
    rendering = made.decided.rendering
    touched = {*rendering.stripped, *rendering.compressed, rendering.noted}
    inbound, outbound = elements(made.wire, made.came), elements(made.wire, made.left)
    ours = msgspec.json.encode({"role": "system", "content": texts.STANDING_INSTRUCTION})
    outbound = [element for element in outbound if element != ours]
    assert len(outbound) == len(rendering.kept)
    for index, element in zip(rendering.kept, outbound, strict=True):
        assert element == inbound[index] or index in touched
    head = ("system", "instructions")
    assert others(made.wire, made.left, *head) == others(made.wire, made.came, *head)
    assert made.left.count(msgspec.json.encode(texts.STANDING_INSTRUCTION)[1:-1]) == int(rendering.instruct)


def _check_reasoning(made: Forwarded) -> None:
    """Signed thoughts leave oldest first; those that stay are whole."""
    came = [signature for _, signature in signatures(made.wire, made.inbound)]
    left = [signature for _, signature in signatures(made.wire, made.outbound)]
    assert left == came[len(came) - len(left) :]


def _check_rows(made: Forwarded) -> None:
    """Every text is in a row, and a row is out of context exactly where its text is out of the prompt."""
    shown = set(marks(items_of(made.wire, made.outbound)))
    stored: Counter[str] = Counter()
    for place, row in enumerate(made.decided.rows):
        names = list(marks(row.text))
        stored.update(names)
        if names:
            assert (names[0] not in shown) == (place in made.decided.dropped), row
    sent = {mark for item in items_of(made.wire, made.inbound) for mark in marks(_said(item))}
    assert sent == set(stored)


def _said(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item without the copy of its thought that a signed block holds."""
    return {key: value for key, value in item.items() if key != "encrypted_content"}


def _check_kept(made: Forwarded) -> None:
    """The task and the last message stay; the pointer stands once, at the start of the cut turn."""
    turns = [index for index, item in enumerate(made.conversation.items) if item.kind == "turn"]
    assert turns[0] in made.decided.rendering.kept
    assert made.decided.rendering.kept[-1] == len(made.conversation.items) - 1
    view = made.decided.view
    if view.cut is None:
        assert "[openmem: continuing" not in made.left.decode()
        return
    assert view.note
    noted = [item for item in items_of(made.wire, made.outbound) if _opening(item).startswith(view.note)]
    assert len(noted) == 1
    assert noted[0]["role"] == "user"
    assert made.left.decode().count("[openmem: continuing") == 1


def _opening(item: dict[str, Any]) -> str:
    content = item.get("content") or ""
    return content if isinstance(content, str) else content[0].get("text", "") if content else ""


def extends(before: Forwarded, came: bytes) -> bool:
    """Return whether the client's own history only grew."""
    past = elements(before.wire, before.came)
    return elements(before.wire, came)[: len(past)] == past


def check_follows(before: Forwarded, made: Forwarded) -> None:
    """Assert that a prompt extends the one before it unless a trim lies between, and that a gap only grows."""
    if not extends(before, made.came):
        return
    if made.decided.trim is None:
        kept = items_of(before.wire, before.outbound)
        assert wires.head_of(made.wire, made.outbound) == wires.head_of(before.wire, before.outbound)
        assert items_of(made.wire, made.outbound)[: len(kept)] == kept
    ours, theirs = before.decided.view, made.decided.view
    if ours.cut is not None and ours.cut == theirs.cut and ours.gap is not None:
        assert theirs.gap is not None
        assert theirs.gap[0] == ours.gap[0]
        assert theirs.gap[1] >= ours.gap[1]


# --- properties --------------------------------------------------------------------------------------------

_PIECES = st.one_of(
    st.binary(max_size=3),
    st.sampled_from(
        [
            b'"',
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b"null",
            b"1",
            b"\\",
            b"\\ud83d",
            b"NaN",
            b"9" * 400,
            b"\xef\xbb\xbf",
        ]
    ),
)

each_wire = pytest.mark.parametrize("wire", WIRES)


@each_wire
def test_whatever_an_agent_sends_what_we_forward_is_accepted_and_extends_what_we_forwarded(wire: Wire) -> None:
    @invented
    @given(wires.scripts(wire), policies(), st.lists(st.sampled_from(FATES), min_size=1, max_size=12))
    def holds(script: Script, policy: Any, fates: list[str]) -> None:
        play(wire, script, policy, fates)

    holds()


def test_one_conversation_gives_the_same_rows_and_drops_the_same_on_every_wire() -> None:
    """Forced, because each wire's own words weigh differently, and with a tail of the newest steps alone."""

    @invented
    @given(wires.scripts(), st.sampled_from([0, 700]), st.integers(1, 4))
    def holds(script: Script, compress: int, every: int) -> None:
        policy = msgspec.structs.replace(WIDE, compress_tokens=compress)
        lanes = [Proxied(wire, policy) for wire in WIRES]
        client = wires.talk(script)
        events = next(client)
        for number in range(1000):
            bodies = [wires.written(lane.wire, events, script.style) for lane in lanes]
            sent = [lane.send(came, force=number % every == 0) for lane, came in zip(lanes, bodies, strict=True)]
            first, *rest = map(facts, sent)
            assert rest == [first] * len(rest)
            try:
                events = client.send("sealed")
            except StopIteration:
                return

    holds()


@each_wire
def test_a_request_read_on_from_another_reads_as_it_does_alone(wire: Wire) -> None:
    """Whatever the other was: the one before it, a later one, one of another branch."""

    @invented
    @given(
        wires.scripts(wire),
        st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=4),
        st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 3), _PIECES), max_size=1),
    )
    def holds(script: Script, pairs: list[tuple[int, int]], cuts: list[tuple[int, int, bytes]]) -> None:
        bodies = [wires.written(wire, events, script.style) for events in _histories(script)]
        for one, other in pairs:
            known = route(wire).adapter.parse(bodies[one % len(bodies)])
            body = _mutated(bodies[other % len(bodies)], cuts)
            assert _parsed(wire, body, known) == _parsed(wire, body, None)

    holds()


def _parsed(wire: Wire, body: bytes, known: Conversation | None) -> dict[str, Any] | None:
    """Return all that a request says, None where it says nothing we could take apart."""
    try:
        made = msgspec.structs.asdict(route(wire).adapter.parse(body, known))
    except NotSplicable:
        return None
    return {key: value for key, value in made.items() if key not in ("reader", "shared")}


def _mutated(body: bytes, cuts: list[tuple[int, int, bytes]]) -> bytes:
    for place, length, put in cuts:
        start = place % (len(body) + 1)
        body = body[:start] + put + body[start + length :]
    return body


@each_wire
def test_a_damaged_body_leaves_as_it_came_or_as_a_request_that_parses(wire: Wire) -> None:
    """Nothing but NotSplicable leaves the core, and what no view touches keeps every byte."""

    @invented
    @given(
        wires.scripts(wire),
        st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 3), _PIECES), min_size=1, max_size=3),
    )
    def holds(script: Script, cuts: list[tuple[int, int, bytes]]) -> None:
        *_, events = _histories(script)
        _bend(wire, _mutated(wires.written(wire, events, script.style), cuts))

    holds()


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", "text", "user", "assistant", "tool", "reasoning", "half \ud83d", [], {}, [[]], [None], {"a": 1}]
    ),
)


@each_wire
def test_a_value_of_another_type_anywhere_is_no_exception(wire: Wire) -> None:
    @invented
    @given(wires.scripts(wire), st.lists(st.integers(0, 1 << 20), min_size=1, max_size=12), _VALUES)
    def holds(script: Script, turns: list[int], value: object) -> None:
        *_, events = _histories(script)
        body = wires.request(wire, events, script.style)
        _put(body, turns, value)
        _bend(wire, json.dumps(body).encode())

    holds()


def _histories(script: Script) -> list[list[Event]]:
    """Return the history of each request of a session."""
    client = wires.talk(script)
    histories = [next(client)]
    while True:
        try:
            histories.append(client.send("sealed"))
        except StopIteration:
            return histories


def _put(value: Any, turns: list[int], new: object) -> None:
    """Put a value somewhere in a JSON value: each turn takes one member on the way down."""
    while value:
        key = list(value)[turns[0] % len(value)] if isinstance(value, dict) else turns[0] % len(value)
        if len(turns) == 1 or not isinstance(value[key], (dict, list)) or not value[key]:
            value[key] = new
            return
        value, turns = value[key], turns[1:]


def _bend(wire: Wire, body: bytes) -> None:
    """Send what may be no request; only that may be said of it."""
    proxied = Proxied(wire)
    try:
        made = proxied.send(body, force=True)
    except NotSplicable:
        return
    assert made.left == body or ITEMS[wire] in json.loads(made.left)
    assert made.decided.root is None or proxied.peek(body).left == made.left
