"""Hold what an answer reports to the provider's own counts, and to what a kept one said."""

import pytest
from openmem_addon.core import responses
from openmem_addon.core.usage import Tap, Usage
from openmem_store.rows import Draft

from tests.addon.core.responses.made import CALL

COUNTS = '{"input_tokens":1000,"output_tokens":5,"input_tokens_details":{"cached_tokens":900}}'


@pytest.mark.parametrize("kind", ["response.completed", "response.incomplete", "response.failed"])
def test_a_final_event_reports_usage_without_what_was_cached(kind: str) -> None:
    event = f'{{"type":"{kind}","response":{{"id":"resp_1","store":false,"usage":{COUNTS}}}}}'
    expected = Usage(input_tokens=100, cache_read_tokens=900, output_tokens=5, final=True)
    assert responses.usage(event.encode()) == expected


def test_other_events_and_no_usage_report_nothing() -> None:
    assert responses.usage(b'{"type":"response.created","response":{"id":"resp_1","usage":null}}') is None
    assert responses.usage(b'{"type":"response.output_text.delta","delta":"usage"}') is None
    failed = responses.usage(b'{"type":"response.failed","response":{"id":"resp_1","store":false,"usage":null}}')
    assert failed == Usage(final=True)


def test_a_kept_response_reports_what_it_said_for_the_one_that_continues_it() -> None:
    said = f'{CALL},{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"half \\ud83d"}}]}}'
    answer = f'{{"id":"resp_1","output":[{said}],"usage":{COUNTS}}}'
    tap = Tap(responses.usage, content_type="application/json", content_encoding="")
    tap.feed(answer.encode())
    found = tap.result()
    assert found.response_id == "resp_1"
    assert found.output == (
        Draft("assistant", "tool_use", "run", "{}"),
        Draft("assistant", "text", None, "half \ufffd"),
    )


def test_a_response_that_is_not_kept_is_not_remembered() -> None:
    answer = f'{{"id":"resp_1","store":false,"output":[{CALL}],"usage":{COUNTS}}}'
    found = responses.usage(answer.encode())
    assert found is not None
    assert found.response_id is None
    assert found.output == ()
