"""The prompt of a Responses request."""

import pytest

from fixtures.provider import tokens
from fixtures.provider.openai import caching, media
from fixtures.provider.responses import prompt, wire
from tests.provider.responses.bodies import (
    COMPACTED,
    OLDER,
    READ,
    answered,
    assistant,
    body,
    call,
    changed,
    grown,
    output,
    thought,
    user,
)


def pieces(request, **more):
    """Return the pieces of a request's prompt."""
    return prompt.pieces(request, wire.items(request["input"]), **more)


def total(request, **more):
    """Return its tokens."""
    return caching.count(pieces(request, **more))


START = body(user(), call(), output())
LATER = {"type": "additional_tools", "role": "developer", "tools": [READ]}

MORE = {
    "instructions": changed(START, instructions="be brief"),
    "a tool": changed(START, tools=[READ, READ]),
    "a schema": changed(START, text={"format": {"type": "json_object"}}),
    "a message": grown(START, user("more")),
    "a longer call": body(user(), call(arguments='{"path":"a much longer one"}'), output()),
    "a longer result": body(user(), call(), output(content="done at last, and well")),
    "tools among the items": grown(START, LATER),
    "a compaction": body(COMPACTED, *START["input"]),
    "an item of an unknown type": grown(START, {"type": "something_new", "data": [1, 2]}),
    "a refusal": grown(START, assistant([{"type": "refusal", "refusal": "no"}])),
}


@pytest.mark.parametrize("name", MORE)
def test_everything_the_model_gets_weighs_something(name):
    assert total(MORE[name]) > total(START)


@pytest.mark.parametrize("kind", wire.CALLS)
def test_calls_and_outputs_of_every_type_weigh_something(kind):
    request = body(user(), call(kind=kind), output(kind=kind))
    assert total(request) > total(body(user())) + 2 * tokens.BLOCK_FRAME


def test_one_prompt_has_one_form():
    other = body(
        {"role": "user", "content": [{"type": "input_text", "text": "go"}], "id": "msg_1"},
        call(id="fc_1", status="completed"),
        output(content=[{"type": "input_text", "text": "done"}]),
        store=True,
    )
    assert pieces(other) == pieces(START)


@pytest.mark.parametrize(
    "other",
    [
        body(user(), call("call_2"), output("call_2")),
        body(user(), call(namespace="files"), output()),
        body(user(), call(kind="shell_call"), output(kind="shell_call")),
        body({**user(), "role": "developer"}, call(), output()),
    ],
)
def test_another_conversation_has_another_prompt(other):
    assert pieces(other) != pieces(START)


def test_where_prefixes_are_checked_instructions_follow_the_input_and_are_not_cached():
    newer, older = changed(START, instructions="be brief"), changed(START, instructions="be brief", model=OLDER)
    assert [piece.mark for piece in pieces(newer) if not piece.cached] == [pieces(newer)[-1].mark] == ["instructions"]
    assert pieces(older)[0].mark == "instructions"
    assert all(piece.cached for piece in pieces(older))
    assert total(newer) == total(older)


def test_reasoning_counts_what_is_sealed_in_it_unless_it_is_dropped():
    request = answered(body(user()), thought(), call())
    weight = tokens.BLOCK_FRAME + 5
    assert total(request) - total(request, dropped=frozenset({1})) == weight


@pytest.mark.parametrize(
    ("model", "context", "kept"),
    [
        ("gpt-6.2-sol", None, True),
        ("gpt-6.2-sol", "current_turn", False),
        (OLDER, None, False),
        (OLDER, "auto", False),
        (OLDER, "all_turns", True),
    ],
)
def test_reasoning_of_earlier_turns_depends_on_the_model_and_the_request(model, context, kept):
    reasoning = {"effort": "low"} if context is None else {"context": context}
    start = body(user(), model=model, reasoning=reasoning)
    request = grown(answered(start, thought(), call()), user("more"))
    before = grown(start, *request["input"][2:])
    assert (total(request) > total(before)) is kept
    during = answered(start, thought(), call())
    assert total(during) > total(grown(start, *during["input"][2:]))


def test_media_weighs_what_the_provider_says():
    image = {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"}
    plain = total(body(user([])))
    assert total(body(user([image]))) == plain + media.BASE
    assert total(body(user([{"type": "input_file", "file_id": "file_1"}]))) == plain + media.FILE
    shot = {"type": "computer_screenshot", "image_url": "https://example.com/a.png"}
    seen = body(user(), call(kind="computer_call"), output(kind="computer_call", content=shot))
    assert total(seen) > media.BASE + media.TILE
