"""The last request of each conversation is kept within a bound of bytes."""

import json

from openmem_addon.core import anthropic
from openmem_addon.recent import Former, Recent


def former(text: str) -> Former:
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    return Former(anthropic.parse(body), ())


def name(session: str) -> object:
    return Recent.name({"x-claude-code-session-id": session}, b"{}")


def test_a_conversations_next_request_finds_the_one_before_it():
    recent = Recent()
    kept = former("one")
    recent.keep(name("a"), kept)
    assert recent.get(name("a")) is kept
    assert recent.get(name("b")) is None


def test_subagents_and_bodies_of_another_beginning_have_a_place_of_their_own():
    headers = {"x-claude-code-session-id": "a"}
    names = [
        Recent.name(headers, b'{"model":"large"}'),
        Recent.name(headers, b'{"model":"small"}'),
        Recent.name({**headers, "x-claude-code-agent-id": "helper"}, b'{"model":"large"}'),
    ]
    assert len(set(names)) == 3


def test_the_conversation_used_longest_ago_goes_first_when_the_bound_is_reached():
    size = len(former("x" * 1000).conversation.body)
    recent = Recent(most_bytes=2 * size)
    for session in ("a", "b", "a", "c"):
        recent.keep(name(session), former("x" * 1000))
    assert recent.get(name("b")) is None
    assert recent.get(name("a")) is not None
    assert recent.get(name("c")) is not None


def test_a_body_over_the_bound_is_not_kept_and_takes_its_predecessor_with_it():
    recent = Recent(most_bytes=500)
    recent.keep(name("a"), former("short"))
    recent.keep(name("a"), former("x" * 1000))
    assert recent.get(name("a")) is None
    recent.keep(name("b"), former("short"))
    assert recent.get(name("b")) is not None
