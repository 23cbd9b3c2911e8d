"""Hold a history to the thread it goes on with, and to the answers it did not get from us."""

import json

import msgspec
import pytest
from openmem_addon.core import anthropic, lineage, rewrite
from openmem_addon.core.rewrite import Policy, Rewrite
from openmem_addon.core.view import Thread

from fixtures.provider.wire import Json
from tests import forwarding
from tests.conversations import TOOLS, assistant, body, chat, encode, thinking, user

QUESTIONS = body(*chat(9), user("last"))


def decide(request: Json, thread: Thread | None = None, policy: Policy = forwarding.WIDE) -> Rewrite:
    return rewrite.decide(anthropic.parse(encode(request)), thread, policy, sample=None)


def forced() -> Policy:
    return msgspec.structs.replace(forwarding.WIDE, force=True)


def _inherited(request: Json, *candidates: tuple[str, Thread]) -> str | None:
    conversation = anthropic.parse(encode(request))
    return lineage.inherited(conversation, rewrite.root(conversation) or "", candidates)


def test_a_fork_is_shown_the_view_its_history_was_made_under() -> None:
    cut = decide(QUESTIONS, policy=forced())
    key, other = f"main/{cut.root}", "main/other"
    grown = body(*QUESTIONS["messages"], assistant("so"), user("next"))
    assert _inherited(grown, (other, decide(body(*chat(2, start=5))).thread), (key, cut.thread)) == key
    assert _inherited(body(*chat(3, start=5), user("last")), (key, cut.thread)) is None


def test_a_fork_from_before_the_cuts_is_shown_the_first_view() -> None:
    cut = decide(QUESTIONS, policy=forced())
    key = f"main/{cut.root}"
    assert _inherited(body(*chat(3), user("another way")), (key, cut.thread)) == key
    other = body(*chat(1)[:1], assistant("another answer"), user("more"))
    assert _inherited(other, (key, cut.thread)) is None
    moved = decide(other, cut.thread)
    assert _inherited(other, (key, moved.thread)) == key


def test_a_fork_whose_view_fits_wins_over_a_namesake() -> None:
    cut = decide(QUESTIONS, policy=forced())
    base = decide(body(*chat(1), user("more")))
    candidates = ((f"main/{base.root}", base.thread), (f"sub/{cut.root}", cut.thread))
    assert _inherited(QUESTIONS, *candidates) == f"sub/{cut.root}"


def test_a_fork_right_after_the_first_reply_is_shown_the_view_the_reply_was_given_under() -> None:
    """The reply is in no request of the session that got it."""
    first = decide(body(user("go")))
    key = f"main/{first.root}"
    reply = assistant(thinking(), "so")
    assert _inherited(body(user("go"), reply, user("next")), (key, first.thread)) == key
    assert _inherited(body(user("go"), user("and"), reply, user("next")), (key, first.thread)) is None
    assert _inherited(body(user("went"), reply, user("next")), (key, first.thread)) is None
    refused = msgspec.structs.replace(first.thread, sent=None)
    assert _inherited(body(user("go"), reply, user("next")), (key, refused)) is None


def test_a_thread_whose_first_reply_is_known_wins_over_one_that_only_began_alike() -> None:
    base = decide(body(*chat(1), user("more")))
    began = decide(body(*chat(1)[:1]))
    key = f"{base.root}"
    assert _inherited(QUESTIONS, (f"a/{key}", began.thread), (f"b/{key}", base.thread)) == f"b/{key}"


def test_a_thread_that_was_never_changed_has_nothing_to_hand_on() -> None:
    plain = decide(body(*chat(1), user("more"), tools=[*TOOLS]))
    assert _inherited(QUESTIONS, (f"main/{plain.root}", plain.thread)) is None


def _packed(thought: str) -> Json:
    """Return reasoning as a gateway packs signed thinking."""
    block = {"type": "thinking", "thinking": thought, "signature": "s"}
    return {"type": "reasoning", "summary": [], "encrypted_content": json.dumps([block])}


@pytest.mark.parametrize(
    ("between", "stays"),
    [
        ({"type": "mcp_list_tools", "server_label": "s", "tools": []}, True),
        ({"type": "something_new"}, True),
        ({"type": "message", "role": "developer", "content": "be brief"}, False),
        ({"type": "message", "role": "user", "content": "and that"}, False),
    ],
    ids=["a list of a server's tools", "an item of a type we do not know", "a developer's message", "a user's message"],
)
def test_reasoning_leaves_only_where_another_request_was_asked_between(between: Json, stays: bool) -> None:
    """An answer holds items of no speaker; what the client said in between is a request that did not pass us."""
    proxied = forwarding.Proxied("responses")
    asked = {"model": "m", "store": False, "tools": [{"type": "function", "name": "smart_compact_search"}]}
    first = {"type": "message", "role": "user", "content": "go"}
    call = {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "done"}
    proxied.send(encode({**asked, "input": [first]}))
    made = proxied.send(encode({**asked, "input": [first, _packed("a"), between, call, output]}))
    assert (_packed("a") in made.outbound["input"]) == stays
