"""Ids and encrypted content."""

import pytest

from fixtures.provider.responses import sealed
from fixtures.provider.responses.sealed import Compacted, Issued, Reasoned
from tests.provider.responses.bodies import (
    COMPACTED,
    REASONING,
    START,
    THOUGHT,
    assistant,
    call,
    made,
    thought,
    user,
    without,
)

SEED = "0123456789abcdef01234567"
RECORD = Reasoned("rs_1", "prefix", None, 5, "next")


def test_an_id_says_which_answer_and_which_thought_its_item_came_from():
    reasoning, own = THOUGHT["input"][1:3]
    read = sealed.issued(own)
    assert (read.ordinal, read.after) == (1, 0)
    assert sealed.reasoning_id(read.seed, read.after) == reasoning["id"]
    assert sealed.issued(reasoning) == Issued(read.seed, 0, None)


def test_an_id_looks_like_one():
    name = sealed.issue(call(), Issued(SEED, 1, 0))
    assert name.startswith(f"fc_{SEED}0100")
    assert len(name) == len("fc_") + 40


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": '{"path":"b.txt"}'},
        {"call_id": "call_2"},
        {"name": "Write"},
        {"namespace": "files"},
        {"id": "fc_1"},
        {"id": sealed.issue(call("call_9"), Issued(SEED, 0, None))},
    ],
)
def test_an_id_belongs_to_one_content(change):
    [own] = made(START, call())
    assert sealed.issued(own) is not None
    assert sealed.issued({**own, **change}) is None


@pytest.mark.parametrize(
    "form",
    [
        lambda item: {**item, "status": "completed"},
        lambda item: {**item, "arguments": '{ "path" : "a.txt" }'},
        lambda item: {**item, "internal_chat_message_metadata_passthrough": {"turn_id": "t"}},
    ],
)
def test_an_id_does_not_depend_on_the_form(form):
    [own] = made(START, call())
    assert sealed.issued(form(own)) is not None


def test_a_message_is_its_text_in_either_form():
    [own] = made(START, assistant("an answer"))
    parts = [{"type": "output_text", "text": "an answer", "annotations": []}]
    assert sealed.issued({**own, "content": parts}) is not None
    assert sealed.issued({**own, "content": "another"}) is None


@pytest.mark.parametrize("record", [RECORD, Compacted("cmp_1", "all that was")])
def test_what_is_sealed_is_read_again(record):
    encrypted = sealed.seal(record)
    assert encrypted.startswith("gAAAA")
    assert len(encrypted) > 150
    assert sealed.unseal(encrypted) == record


@pytest.mark.parametrize("encrypted", [None, "", "gAAAA", "not base64!", sealed.seal(RECORD)[:-4], "天气"])
def test_what_was_not_sealed_here_is_nothing(encrypted):
    assert sealed.unseal(encrypted) is None


def test_every_character_of_sealed_content_counts():
    encrypted = sealed.seal(RECORD)
    middle = len(encrypted) // 2
    other = "A" if encrypted[middle] != "A" else "B"
    assert sealed.unseal(encrypted[:middle] + other + encrypted[middle + 1 :]) is None


def test_content_is_compared_by_kind():
    assert sealed.content(user("a")) != sealed.content(assistant("a"))
    assert sealed.content(REASONING) == sealed.content(without(REASONING, "id"))
    assert sealed.content({"type": "web_search_call", "id": "ws_1", "action": {}}) == sealed.content(
        {"type": "web_search_call", "status": "completed", "action": {}}
    )


def test_summaries_of_compactions_are_found_by_their_ids():
    assert sealed.summaries([user(), COMPACTED, *made(START, thought(), call())]) == {COMPACTED["id"]: "all that was"}
