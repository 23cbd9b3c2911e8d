"""Hold what an answer reports to the provider's own counts."""

import pytest
from openmem_addon.core import chat
from openmem_addon.core.usage import Usage


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ('{"usage":null}', None),
        ('{"choices":[]}', None),
        (
            '{"usage":{"prompt_tokens":1000,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":900}}}',
            Usage(input_tokens=100, cache_read_tokens=900, output_tokens=5, final=True),
        ),
        (
            '{"usage":{"prompt_tokens":12,"completion_tokens":5}}',
            Usage(input_tokens=12, output_tokens=5, final=True),
        ),
        (
            '{"usage":{"prompt_tokens":100,"completion_tokens":5,"cache_read_input_tokens":60,'
            '"cache_creation_input_tokens":30,"prompt_tokens_details":{"cached_tokens":1}}}',
            Usage(input_tokens=10, cache_read_tokens=60, cache_creation_tokens=30, output_tokens=5, final=True),
        ),
        (
            '{"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cache_creation_tokens":30}}}',
            Usage(input_tokens=70, cache_creation_tokens=30, final=True),
        ),
        (
            '{"usage":{"prompt_tokens":100,"prompt_tokens_details":{"cache_write_tokens":30}}}',
            Usage(input_tokens=70, cache_creation_tokens=30, final=True),
        ),
        ('{"usage":{"completion_tokens":5}}', Usage(output_tokens=5, final=True)),
    ],
)
def test_usage_is_what_was_reported_and_nothing_where_it_was_not(reported: str, expected: Usage | None) -> None:
    assert chat.usage(reported.encode()) == expected
