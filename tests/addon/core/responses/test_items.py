"""Hold the table of item types: which are calls, which answer them, and which reasoning is signed."""

import json

import pytest
from openmem_addon.core.responses import items

from tests.addon.core.responses.made import (
    PACKED,
    PIXEL,
    item,
)


def test_a_generated_image_is_described_and_weighed() -> None:
    read = item(f'{{"type":"image_generation_call","id":"ig_1","result":"{PIXEL}"}}')
    assert [draft.kind for draft in read.drafts] == ["tool_use", "tool_result"]
    assert read.drafts[1].text.startswith("[image 60 bytes sha256:")
    assert read.media == 85 + 170


def test_calls_the_client_answers_are_pairs_and_the_providers_own_are_none() -> None:
    for name, kind in items.CALLS.items():
        read = item(f'{{"type":"{name}","id":"i1","call_id":"c1","name":"run"}}')
        assert [call.id for call in read.calls] == (["c1"] if kind.answered else [])


def test_a_call_without_a_call_id_is_known_by_its_own() -> None:
    assert item('{"type":"local_shell_call","id":"i1","action":{}}').calls[0].id == "i1"


def test_an_output_that_names_no_call_answers_none() -> None:
    assert item('{"type":"tool_search_output","call_id":null,"tools":[]}').answers == ()


@pytest.mark.parametrize(
    ("encrypted", "signed"),
    [
        (PACKED, True),
        (json.dumps("litellm_enc:bW9kZWw=;" + json.loads(PACKED)), True),
        ('"[{\\"type\\":\\"redacted_thinking\\",\\"data\\":\\"d\\"}]"', True),
        ('"[{\\"type\\":\\"text\\"}]"', False),
        ('"[1]"', False),
        ('"[not json"', False),
        ('"litellm_enc:bW9kZWw=;gAAAA"', False),
        ('"gAAAAabc"', False),
        ('""', False),
        ("null", False),
    ],
)
def test_signed_reasoning_is_a_gateways_packing_of_blocks(encrypted: str, signed: bool) -> None:
    read = item(f'{{"type":"reasoning","summary":[],"encrypted_content":{encrypted}}}')
    assert read.signed == read.bare == signed
    assert read.reasons
