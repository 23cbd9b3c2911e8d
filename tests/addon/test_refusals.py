"""Hold the table of refusals to the providers' own sentences, and to leaving alone what we cannot have caused."""

import json

import pytest
from openmem_addon.refusals import HEALABLE, MOST_READ, PATTERNS, diagnose

from fixtures.provider.binding import BETA
from tests.sentences import BOUND, MISSING, MODIFIED, NO_VALVE, SIGNATURE, TOO_LONG, UNANSWERED, anthropic, openai

OURS: dict[str, tuple[str, int, str]] = {
    # https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/fix-bound-to-a-different-conversation
    "bound": ("binding", 400, anthropic(BOUND)),
    "bound, without the header, with what differs": (
        "binding",
        400,
        anthropic(
            f"{BOUND} That setting requires the `{BETA}` value in the `anthropic-beta` header. The `system` prompt "
            "differs from the one this block was created with."
        ),
    ),
    "bound, in a gateway's words": ("binding", 400, openai(f"litellm.BadRequestError: AnthropicException - {BOUND}")),
    "the valve is not known": ("valve", 400, anthropic(NO_VALVE)),
    "the valve's field is not known": (
        "valve",
        400,
        anthropic("thinking.adaptive.block_binding.prefix_mismatch_behavior: Extra inputs are not permitted"),
    ),
    "the valve, in a gateway's words": (
        "valve",
        400,
        openai(f"{anthropic(NO_VALVE)}. Received Model Group=claude-fable-5-1\nAvailable Model Group Fallbacks=None"),
    ),
    "the valve's header is not known": (
        "valve",
        400,
        anthropic(f"Unexpected value(s) `{BETA}` for the `anthropic-beta` header. Please consult our documentation."),
    ),
    "the valve's header, Bedrock": ("valve", 400, json.dumps({"message": "invalid beta flag"})),
    "a signature": ("signature", 400, anthropic(SIGNATURE)),
    "a signature, Vertex": (
        "signature",
        400,
        json.dumps({"error": {"code": 400, "message": anthropic(SIGNATURE), "status": "INVALID_ARGUMENT"}}),
    ),
    "a signature, one error in another": (
        "signature",
        400,
        json.dumps(
            {"type": "error", "error": {"type": "request_fail", "upstream_error": json.loads(anthropic(SIGNATURE))}}
        ),
    ),
    "a signature, OpenRouter": (
        "signature",
        400,
        openai("Provider returned error", metadata={"raw": anthropic(SIGNATURE), "provider_name": "Anthropic"}),
    ),
    "a signature, Bedrock's plain text": (
        "signature",
        400,
        "InvokeModelWithResponseStream: operation error Bedrock Runtime, https response error StatusCode: 400, "
        "ValidationException: ***.***.content.0: Invalid `signature` in `thinking` block (request id: x)",
    ),
    "modified blocks": ("signature", 400, anthropic(MODIFIED)),
    "reasoning is missing": ("missing", 400, anthropic(MISSING)),
    "reasoning is missing, DeepSeek": (
        "missing",
        400,
        anthropic("The `content[].thinking` in the thinking mode must be passed back to the API."),
    ),
    "a call without result": ("orphan", 400, anthropic(UNANSWERED)),
    "a result without call": (
        "orphan",
        400,
        anthropic(
            "messages.12.content.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1. Each "
            "`tool_result` block must have a corresponding `tool_use` block in the previous message."
        ),
    ),
    "a server tool's result without use": (
        "orphan",
        400,
        anthropic("messages.7.content.0: unexpected `tool_use_id` found in `advisor_tool_result` blocks: srvtoolu_1."),
    ),
    "Chat, a call without result": (
        "orphan",
        400,
        openai(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            "'tool_call_id'. The following tool_call_ids did not have response messages: call_1"
        ),
    ),
    "Chat, a result without call": (
        "orphan",
        400,
        openai(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        ),
    ),
    "Chat, in other quotes": (
        "orphan",
        400,
        json.dumps(
            {
                "error": {
                    "message": '<400> InvalidParameter: messages with role "tool" must be a response to a preceeding'
                }
            }
        ),
    ),
    "a gateway's detail": (
        "orphan",
        400,
        json.dumps({"detail": "litellm.BadRequestError: OpenAIException - No tool output found for function call c."}),
    ),
    "Mistral": ("orphan", 400, json.dumps({"message": "Not the same number of function calls and responses"})),
    "Responses, a call without output": ("orphan", 400, openai("No tool output found for function call call_1.")),
    "Responses, an output without call": (
        "orphan",
        400,
        openai("No tool call found for function call output with call_id call_1."),
    ),
    "Responses, reasoning alone": (
        "orphan",
        400,
        openai("Item 'rs_1' of type 'reasoning' was provided without its required following item."),
    ),
    "Responses, without reasoning": (
        "orphan",
        400,
        openai("Item 'msg_1' of type 'message' was provided without its required 'reasoning' item: 'rs_1'."),
    ),
    "a system message before a user's": (
        "placement",
        400,
        anthropic("messages.4: role 'system' must precede an 'assistant' message or end the array"),
    ),
    "a system message behind an answer": (
        "placement",
        400,
        anthropic("messages.4: role 'system' must follow a 'user' message or an 'assistant' message"),
    ),
    "too long": ("long", 400, anthropic(TOO_LONG)),
    "too long with the answer": (
        "long",
        400,
        anthropic("input length and `max_tokens` exceed context limit: 174167 + 64000 > 200000, decrease input length"),
    ),
    "too many bytes": ("long", 413, anthropic("Request exceeds the maximum size", "request_too_large")),
    "too large for the window": ("long", 413, anthropic("Request size exceeds model context window")),
    "too many bytes for a web server": ("long", 413, "<html><h1>413 Request Entity Too Large</h1></html>"),
    "Bedrock, too long": ("long", 400, json.dumps({"message": "Input is too long for requested model."})),
    "OpenAI, too long": (
        "long",
        400,
        openai("Your input exceeds the context window of this model.", code="context_length_exceeded"),
    ),
    "OpenAI, an older sentence": (
        "long",
        400,
        openai("This model's maximum context length is 4097 tokens. However, your messages resulted in 4301 tokens."),
    ),
    "OpenAI, a limit": ("long", 400, openai("Input tokens exceed the configured limit of 272000 tokens.")),
    "OpenRouter": (
        "long",
        400,
        openai("This endpoint's maximum context length is 32768 tokens. However, you requested"),
    ),
    "llama.cpp": ("long", 400, openai("the request exceeds the available context size, try increasing it")),
    "LM Studio": ("long", 400, openai("The number of tokens to keep is greater than the context length")),
    "Copilot": ("long", 400, openai("prompt token count of 70000 exceeds the limit of 64000")),
    "xAI": (
        "long",
        400,
        openai("This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    ),
    "Groq": ("long", 400, openai("Please reduce the length of the messages or completion.")),
    "vLLM in a list": (
        "long",
        422,
        json.dumps({"detail": [{"msg": "context length exceeded", "type": "value_error"}]}),
    ),
}

NOT_OURS: dict[str, tuple[int, str]] = {
    "a model": (400, anthropic("model: claude-none")),
    "an unknown model": (404, anthropic("model: claude-none", "not_found_error")),
    "an answer's length": (
        400,
        anthropic(
            "max_tokens: 300000 > 128000, which is the maximum allowed number of output tokens for claude-opus-5-5"
        ),
    ),
    "a budget": (400, anthropic("`max_tokens` must be greater than `thinking.budget_tokens`.")),
    "thinking that a model has not": (400, anthropic("adaptive thinking is not supported on this model")),
    "an image": (400, anthropic("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6 MB > 5 MB")),
    "an image's size": (
        400,
        anthropic("messages.0.content.1: At least one of the image dimensions exceed max allowed size: 8000 pixels"),
    ),
    "an unknown field": (400, anthropic("context_management: Extra inputs are not permitted")),
    "a tool's name": (400, anthropic("tools: Tool names must be unique.")),
    "credit": (400, anthropic("Your credit balance is too low to access the Anthropic API.")),
    "sealed reasoning": (
        400,
        openai("The encrypted content for item rs_1 could not be verified.", code="invalid_encrypted_content"),
    ),
    "a stored response": (404, openai("Previous response with id 'resp_1' not found.")),
    "an action": (400, openai("Invalid value: 'other'. Supported values are: 'search', 'open_page'.")),
    "no key": (401, anthropic("invalid x-api-key", "authentication_error")),
    "no permission": (403, anthropic(TOO_LONG, "permission_error")),
    "a rate": (429, anthropic("This request would exceed your organization's rate limit: prompt is too long")),
    "a fault": (500, anthropic(TOO_LONG, "api_error")),
    "overload": (529, anthropic("Overloaded", "overloaded_error")),
    "no gateway": (502, "<html>bad gateway</html>"),
    "nothing": (400, ""),
    "words of the request itself": (
        422,
        json.dumps(
            {
                "detail": [
                    {"type": "missing", "loc": ["body", "model"], "msg": "Field required", "input": {"a": TOO_LONG}}
                ]
            }
        ),
    ),
    "words of the request, endlessly": (400, json.dumps({"message": "no", "input": TOO_LONG}) + " " * MOST_READ),
}


@pytest.mark.parametrize(("name", "status", "refusal"), OURS.values(), ids=OURS)
def test_what_our_changes_can_cause_is_known_by_the_providers_words(name: str, status: int, refusal: str) -> None:
    pattern = diagnose(status, refusal.encode())
    assert pattern is not None
    assert pattern.name == name


@pytest.mark.parametrize(("status", "refusal"), NOT_OURS.values(), ids=NOT_OURS)
def test_what_they_cannot_cause_is_not(status: int, refusal: str) -> None:
    assert diagnose(status, refusal.encode()) is None


def test_every_pattern_and_every_status_has_a_case() -> None:
    assert {name for name, _, _ in OURS.values()} == {pattern.name for pattern in PATTERNS}
    assert {status for _, status, _ in OURS.values()} == set(HEALABLE)


def test_an_error_that_is_no_text_says_nothing() -> None:
    assert diagnose(400, b"\xff\xfe\x00") is None
    assert diagnose(400, b"[" * 100_000) is None
