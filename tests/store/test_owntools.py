"""Whose rule: our own answers are echoes, under whatever name a client calls the tool."""

import pytest
from openmem_store.owntools import is_own


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("smart_compact_search", True),
        ("mcp__openmem__smart_compact_sql", True),
        ("openmem_smart_compact_get", True),
        ("openmem.smart_compact_get", True),
        ("openmem/smart_compact_get", True),
        ("mcp_openmem_smart_compact_search", True),
        ("smart_compact_search__explain", False),
        ("mcp__smart_compact_search__other", False),
        ("smart_compact_search.other", False),
        ("notsmart_compact_search", False),
        ("smart_compact", False),
        ("Bash", False),
        ("", False),
        (None, False),
    ],
)
def test_a_tool_is_ours_by_the_last_part_of_its_name(name: str | None, own: bool) -> None:
    assert is_own(name) is own
