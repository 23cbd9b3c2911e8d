"""The prompt of a chat request."""

import pytest

from fixtures.provider import tokens
from fixtures.provider.chat import prompt
from fixtures.provider.openai import caching, media
from tests.provider.chat.bodies import (
    LEGACY,
    PAIR,
    READ,
    assistant,
    body,
    call,
    changed,
    custom,
    system,
    tool,
    user,
)


def total(request):
    """Return the tokens of a request's prompt."""
    return caching.count(prompt.pieces(request))


START = body(system(), *PAIR)

MORE = {
    "a tool": changed(START, tools=[READ, READ]),
    "a function": changed(START, functions=[{"name": "old"}]),
    "a schema": changed(START, response_format={"type": "json_object"}),
    "a message": body(system(), *PAIR, user("more")),
    "a longer call": body(
        system(), user("go"), assistant(None, call(arguments='{"path":"a much longer one"}')), tool()
    ),
    "a refusal": body(system(), *PAIR, assistant(None, refusal="no")),
    "a legacy call": body(system(), *PAIR, LEGACY),
    "a longer result": body(system(), user("go"), assistant(None, call()), tool(content="done at last, and well")),
}


@pytest.mark.parametrize("name", MORE)
def test_everything_the_model_gets_weighs_something(name):
    assert total(MORE[name]) > total(START)


def test_one_prompt_has_one_form():
    """A string or one text part, and fields that say nothing: the same prompt to the cache."""
    parts = body(system([{"type": "text", "text": "be brief"}]), *PAIR, temperature=1, stream=True, user="u")
    assert prompt.pieces(parts) == prompt.pieces(START)


@pytest.mark.parametrize(
    "other",
    [
        body(system("be briefer"), *PAIR),
        body(system(), user("go"), assistant(None, call("call_2")), tool("call_2")),
        body(system(), user("go"), assistant(None, custom()), tool()),
        body(system(), {**user("go"), "name": "someone"}, *PAIR[1:]),
    ],
)
def test_another_conversation_has_another_prompt(other):
    assert prompt.pieces(other) != prompt.pieces(START)


def test_an_image_weighs_what_the_provider_says():
    url = {"url": "https://example.com/a.png", "detail": "low"}
    request = body(user([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": url}]), tools=[])
    assert total(request) == tokens.MESSAGE_FRAME + 1 + media.BASE
    file = body(user([{"type": "file", "file": {"file_id": "file_1"}}]), tools=[])
    assert total(file) == tokens.MESSAGE_FRAME + media.FILE
