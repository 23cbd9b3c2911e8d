"""Stored responses."""

from fixtures.provider.responses.history import Histories
from tests.provider.responses.bodies import KEPT, REASONING, body, kept, output, user, without


def test_a_stored_response_leads_the_input():
    resolved = kept().resolve(body(output("call_x"), previous_response_id=KEPT))
    assert [item["type"] for item in resolved.items] == [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
    assert (resolved.offset, resolved.unknown_response) == (3, None)


def test_an_unknown_response_is_named():
    resolved = Histories().resolve(body(user(), previous_response_id="resp_1"))
    assert (resolved.unknown_response, resolved.offset, resolved.items) == ("resp_1", 0, [user()])


def test_references_become_what_they_stand_for():
    request = body({"type": "item_reference", "id": REASONING["id"]}, {"id": "rs_unknown"})
    resolved = kept().resolve(request)
    assert resolved.items[0] == REASONING
    assert resolved.unknown_items == ("rs_unknown",)


def test_reasoning_without_its_content_is_looked_up():
    resolved = kept().resolve(body(without(REASONING, "encrypted_content")))
    assert resolved.items == [REASONING]
    assert Histories().resolve(body(without(REASONING, "encrypted_content"))).unknown_items == (REASONING["id"],)


def test_a_string_is_an_input_too():
    assert Histories().resolve({"input": "go"}).items == [user()]
