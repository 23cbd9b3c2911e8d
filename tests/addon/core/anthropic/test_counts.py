"""Hold what an answer reports to the provider's own counts; whole streams are in `fixtures/sse`."""

import json

import pytest
from openmem_addon.core import anthropic
from openmem_addon.core.usage import Usage

from fixtures.provider.wire import Json

EVENTS: dict[str, tuple[Json, Usage | None]] = {
    "a start": (
        {"type": "message_start", "message": {"usage": {"input_tokens": 3, "cache_read_input_tokens": 2}}},
        Usage(3, 2),
    ),
    "a change": (
        {"type": "message_delta", "usage": {"output_tokens": 9, "input_tokens": None}},
        Usage(None, None, None, 9),
    ),
    "an end": ({"type": "message_stop"}, Usage(final=True)),
    "a whole answer": ({"type": "message", "usage": {"input_tokens": 3}}, Usage(3, final=True)),
    "a text": ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "usage"}}, None),
    "several samplings": (
        {
            "type": "message",
            "usage": {
                "input_tokens": 9,
                "iterations": [
                    {"type": "message", "input_tokens": 7},
                    {"type": "message", "input_tokens": 1, "cache_read_input_tokens": 1},
                    {"type": "compaction", "input_tokens": 5},
                ],
            },
        },
        Usage(9, last_prompt=2, final=True),
    ),
}


@pytest.mark.parametrize(("event", "found"), EVENTS.values(), ids=EVENTS)
def test_an_event_reports_what_it_says_and_no_more(event: Json, found: Usage | None) -> None:
    assert anthropic.usage(json.dumps(event).encode()) == found
