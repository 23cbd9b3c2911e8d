"""Ask the strict provider's rules about a request on any wire, without a server and without what it signed."""

from fixtures.provider import binding
from fixtures.provider.chat.rules import table as chat_table
from fixtures.provider.chat.rules.request import Request as ChatRequest
from fixtures.provider.openai import rule
from fixtures.provider.responses.history import Histories
from fixtures.provider.responses.rules import table as responses_table
from fixtures.provider.responses.rules.request import Request as ResponsesRequest
from fixtures.provider.rules import table as anthropic_table
from fixtures.provider.rules.request import Request as AnthropicRequest
from tests.wires import Json, Wire

HEADERS = {"x-api-key": "invented", "anthropic-version": "2023-06-01", "authorization": "Bearer invented"}

ISSUED = {
    "thinking_binding",
    "signed_thinking",
    "encrypted_content",
    "item_id",
    "stored_item",
    "previous_response",
    "prefill",
}
"""Rules about what the provider itself issued or keeps, which invented signatures, ids and responses are not."""

_ROOM = 1_000_000


def refusal(wire: Wire, body: Json) -> str | None:
    """Return the rule a request breaks and what the provider says of it; None where it breaks none."""
    match wire:
        case "anthropic":
            seen = binding.check(body, HEADERS, account="new")
            asked = AnthropicRequest(body=body, headers=HEADERS, verdict=seen, prompt_tokens=0, context_tokens=_ROOM)
            said = ((one.name, one.check(asked)) for one in anthropic_table.RULES if one.name not in ISSUED)
            return next((f"{name}: {message}" for name, message in said if message is not None), None)
        case "chat":
            rules = [one for one in chat_table.RULES if one.name not in ISSUED]
            chat = ChatRequest(body=body, headers=HEADERS, prompt_tokens=0, context_tokens=_ROOM)
            denied = rule.refuse(rules, chat)
        case "responses":
            rules = [one for one in responses_table.RULES if one.name not in ISSUED]
            resolved = Histories().resolve(body)
            responses = ResponsesRequest(
                body=body, headers=HEADERS, resolved=resolved, prompt_tokens=0, context_tokens=_ROOM
            )
            denied = rule.refuse(rules, responses)
    return None if denied is None else f"{denied.rule}: {denied.message}"
