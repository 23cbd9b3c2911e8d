"""The tools, called without a server around them."""

import json
from pathlib import Path
from typing import Any

import pytest
from openmem_store import blobs
from openmem_store.layout import Layout
from openmem_store.reader.answers import RefusedError
from openmem_store.reader.echoes import ANSWER_MARKER
from openmem_store.reader.tools import Tools
from openmem_store.settings import Settings

from tests.store.reader.conversation import replied, returned, said, store
from tests.store.reader.embedded import EAST, NORTH, Known, answering, embed


@pytest.fixture
def tools(layout: Layout, tmp_path: Path) -> Tools:
    store(layout, "s", said("SET K1 = red"), replied("red"), returned("Bash", "red"))
    return Tools(layout, tmp_path)


async def answer(call: Any) -> dict[str, Any]:
    decoded = json.loads(await call)
    assert decoded.pop("note") == ANSWER_MARKER
    return decoded


@pytest.mark.parametrize(
    ("role", "seqs"),
    [
        (["user", "tool"], {1, 3}),
        ("all", {1, 2, 3}),
        ("assistant", {2}),
        (["assistant", "user"], {1, 2}),
        ([], {1, 2, 3}),
    ],
)
async def test_roles_choose_rows(tools: Tools, role: Any, seqs: set[int]) -> None:
    found = await answer(tools.smart_compact_search(query="red", role=role))
    assert {result["seq"] for result in found["results"]} == seqs
    found = await answer(tools.smart_compact_search(pattern="red", role=role))
    assert {result["seq"] for result in found["results"]} == seqs


async def test_what_is_kept_between_calls_changes_no_answer(tools: Tools, layout: Layout, tmp_path: Path) -> None:
    keeping = Tools(layout, tmp_path, keeps=True)
    for _ in range(2):
        for given in ({"query": "red"}, {"pattern": "red"}, {"query": "red", "context": 1, "role": "all"}):
            assert await keeping.smart_compact_search(**given) == await tools.smart_compact_search(**given)
        statement = "SELECT count(*) FROM messages"
        assert await keeping.smart_compact_sql("s", statement) == await tools.smart_compact_sql("s", statement)
    keeping.close()


async def test_user_and_tool_rows_are_the_default(tools: Tools) -> None:
    assert (await answer(tools.smart_compact_search(query="red")))["total_matches"] == 2


async def test_a_search_goes_by_words_and_vectors_as_the_settings_and_the_call_say(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, m=Known({"colour": EAST}))
    embed(store(layout, "s", said("SET K1 = red"), replied("red"), returned("Bash", "red")), {1: EAST, 3: NORTH})
    tools = Tools(layout, tmp_path, Settings(root=layout.root, embedding_model="m"))
    found = await answer(tools.smart_compact_search(query="colour"))
    assert (found["mode"], [result["seq"] for result in found["results"]]) == ("hybrid", [1, 3])
    assert found["vectors"] == {"filled": 2, "pending": 1, "skipped": 0}
    found = await answer(tools.smart_compact_search(query="colour", mode="lexical"))
    assert (found["mode"], found["results"]) == ("lexical", [])
    found = await answer(tools.smart_compact_search(pattern="red"))
    assert found["mode"] == "lexical"
    assert "vectors" not in found


async def test_query_and_pattern_exclude_each_other(tools: Tools) -> None:
    with pytest.raises(RefusedError, match="query and pattern: give one of them"):
        await tools.smart_compact_search(query="a", pattern="b")


BAD_IDS = {
    "": "empty", "  \t": "empty", ".": "'.'", "..": "'.'", " .. ": "'.'", "a/b": "'/'", "../s": "'/'", "a\\b": "'/'",
    "gone": "has no stored messages",
}  # fmt: skip


@pytest.mark.parametrize("session_id", BAD_IDS)
async def test_a_session_id_that_is_none_is_refused_by_every_tool(
    tools: Tools, layout: Layout, session_id: str
) -> None:
    for call in (
        tools.smart_compact_search(query="x", session_id=session_id),
        tools.smart_compact_sql(session_id, "SELECT 1"),
        tools.smart_compact_get(session_id=session_id, seq=1),
    ):
        with pytest.raises(RefusedError, match="session_id") as refusal:
            await call
        assert BAD_IDS[session_id] in str(refusal.value)
        assert str(layout.root) not in str(refusal.value)


async def test_an_id_is_sanitised_as_everywhere(tools: Tools, layout: Layout) -> None:
    store(layout, "a_b", said("x"))
    assert (await answer(tools.smart_compact_search(query="x", session_id=" a😀b ")))["total_matches"] == 1


async def test_a_blob_is_read_in_pages(tools: Tools, layout: Layout) -> None:
    text = "line 木\n" * 20_000
    name = blobs.write(layout, text)
    joined, offset = "", 0
    while offset is not None:
        page = await answer(tools.smart_compact_get(id=name, offset=offset, limit=30_000))
        joined += page["text"]
        offset = page.get("next_offset")
    assert joined == text


async def test_a_row_is_read_by_its_seq(tools: Tools) -> None:
    assert (await answer(tools.smart_compact_get(session_id="s", seq=1)))["text"] == "SET K1 = red"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "id or seq"),
        ({"id": "0" * 16, "seq": 1}, "id or seq"),
        ({"seq": 1}, "session_id: give it with seq"),
        ({"id": "../../etc/hosts"}, "id: no stored text"),
        ({"id": "0" * 16}, "id: no stored text"),
        ({"session_id": "s", "seq": 99}, "seq 99 is not in this session"),
        ({"session_id": "s", "seq": 1 << 63}, "seq 9223372036854775808 is not in this session"),
        ({"session_id": "s", "seq": 1, "offset": 99}, "offset must be at most 12"),
    ],
)
async def test_a_page_that_is_none_is_refused(tools: Tools, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        await tools.smart_compact_get(**arguments)


async def test_status_and_sql_answer(tools: Tools) -> None:
    assert (await answer(tools.context_status()))["messages"] == 3
    table = await answer(tools.smart_compact_sql("s", "SELECT count(*) AS n FROM lines"))
    by = {"user, first turn": 1, "assistant": 1, "tool result Bash": 1}
    assert table == {"columns": ["n"], "rows": [[3]], "truncated": False, "count_by": by}
    nothing = await answer(tools.smart_compact_sql("s", "SELECT text FROM lines WHERE 0"))
    assert nothing == {"columns": [], "rows": [], "truncated": False}
