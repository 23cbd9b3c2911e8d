"""Whose rule: a prefix is cold only when the provider must have let go of it."""

import pytest
from openmem_addon.core.lifetime import DAY, FIVE_MINUTES, HOUR, marked, retained


@pytest.mark.parametrize(
    ("markers", "seconds"),
    [
        ([], 0),
        ([b'{"type":"ephemeral"}'], FIVE_MINUTES),
        ([b'{"type": "ephemeral", "ttl": "5m"}'], FIVE_MINUTES),
        ([b'{"type":"ephemeral"}', b'{"type":"ephemeral","ttl":"1h"}'], HOUR),
        ([b'{"ttl":"2d"}'], HOUR),
        ([b'"odd"'], FIVE_MINUTES),
    ],
)
def test_the_longest_lived_marker_counts(markers: list[bytes], seconds: int) -> None:
    assert marked(markers) == seconds


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [(None, DAY), ("24h", DAY), ("in_memory", HOUR), ("in-memory", HOUR), ("later", DAY), (["in_memory"], DAY)],
)
def test_a_cache_without_markers_is_kept_a_day_unless_a_request_says_in_memory(stated: object, seconds: int) -> None:
    assert retained(stated) == seconds
