"""The gateway in front of Anthropic."""

import copy
import json

from fixtures.provider import binding
from fixtures.provider.openai import gateway
from fixtures.provider.openai.gateway import Gateway
from fixtures.provider.scenario import Step
from tests.provider.bodies import CHECKED, CONTROLS, answered, body, changed, text, user

KEY = {"authorization": "Bearer invented"}


def edited():
    """Return a request whose thinking was made under another prefix."""
    return changed(answered(body(user("go"))), system="changed")


def test_a_refusal_is_passed_on_with_anthropics_body_inside():
    upstream = Gateway("new").forward(edited(), KEY)
    refusal = gateway.refusal(upstream)
    assert refusal is not None
    assert refusal.code == "400"
    front, _, rest = refusal.message.partition(" - ")
    assert front == "litellm.BadRequestError: AnthropicException"
    inner, _ = json.JSONDecoder().raw_decode(rest)
    assert inner["error"]["type"] == "invalid_request_error"
    assert "The block is bound to a different conversation" in inner["error"]["message"]
    assert rest.endswith(f"Received Model Group={CHECKED}\nAvailable Model Group Fallbacks=None")


def test_what_is_bound_as_it_was_goes_on():
    assert gateway.refusal(Gateway("new").forward(answered(body(user("go"))), KEY)) is None


def test_the_valve_reaches_anthropic_by_a_header_of_the_body():
    valve = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    request = changed(edited(), thinking=valve)
    extra = {"Anthropic-Beta": binding.BETA}
    upstream = Gateway("new").forward(request, KEY, extra=extra)
    assert gateway.refusal(upstream) is None
    assert upstream.verdict.dropped == {(1, 0)}
    assert len(upstream.verdict.transformations) == 1
    assert upstream.tokens < Gateway("new").forward(answered(body(user("go"))), CONTROLS).tokens + 10


def test_an_answer_is_anthropics_and_its_counts_add_up():
    request = body(user("go"), system=[text("word " * 2_000, cache_control={"type": "ephemeral"})])
    through = Gateway("new")
    upstream = through.forward(request, KEY)
    message, counts = through.answer(upstream, Step(text="done"), index=0, number=1, now=0.0)
    assert message["content"] == [{"type": "text", "text": "done"}]
    assert (counts.read, counts.prompt) == (0, upstream.tokens)
    assert counts.written > 2_000
    _, again = through.answer(through.forward(copy.deepcopy(request), KEY), Step(), index=0, number=2, now=1.0)
    assert gateway.added(again) == {"cache_creation_input_tokens": 0, "cache_read_input_tokens": counts.written}


def test_a_script_may_replace_counts():
    through = Gateway("new")
    step = Step(text="x", usage={"input_tokens": 990_000})
    _, counts = through.answer(through.forward(body(user("go")), KEY), step, index=0, number=1, now=0.0)
    assert counts.fresh == 990_000


def test_thinking_is_the_clients_own_or_follows_the_effort():
    own = {"type": "enabled", "budget_tokens": 1_024}
    assert gateway.thinking({"thinking": own}, effort="high") == own
    assert gateway.thinking({}, effort="high") == {"type": "adaptive", "display": "summarized"}
    assert gateway.thinking({}, effort="none") is None
    assert gateway.thinking({}, effort=None) is None


def test_function_tools_become_anthropics():
    schema = {"type": "object", "properties": {}}
    assert gateway.tools([{"name": "run", "description": "Run it.", "parameters": schema}, {"name": "b"}]) == [
        {"name": "run", "description": "Run it.", "input_schema": schema},
        {"name": "b", "description": "", "input_schema": {"type": "object"}},
    ]
