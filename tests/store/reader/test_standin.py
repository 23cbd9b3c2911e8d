"""Answers from a session whose indexes are damaged."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest
from openmem_store import retention, salvage
from openmem_store.layout import Layout
from openmem_store.reader import standin
from openmem_store.reader.tools import Tools

from tests.store.damage import spoil
from tests.store.reader.conversation import called, replied, returned, said, store

DRAFTS = (
    said("SET alpha = 1\nSET beta = 2"),
    replied("alpha is 1"),
    *(returned("Bash", f"{'filler ' * 200}{number}\nalpha again") for number in range(30)),
    called("smart_compact_search", '{"query":"alpha"}'),
    returned("smart_compact_search", "alpha"),
)

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("smart_compact_search", {"query": "alpha filler"}),
    ("smart_compact_search", {"pattern": "^alpha a"}),
    ("smart_compact_search", {"query": "alpha", "session_id": "s", "context": 1}),
    ("smart_compact_sql", {"session_id": "s", "sql": "SELECT count(*) FROM source_lines WHERE text LIKE '%alpha%'"}),
    ("smart_compact_sql", {"session_id": "s", "sql": "SELECT rowid FROM lines_fts WHERE lines_fts MATCH 'alpha'"}),
)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return where temporary copies are made; none may stay."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


async def answers(layout: Layout) -> list[dict[str, Any]]:
    tools = Tools(layout, layout.root)
    return [json.loads(await getattr(tools, name)(**arguments)) for name, arguments in CALLS]


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("damaged", ["messages_fts_data", "lines_fts_data", "messages_fts_idx", "lines_fts_config"])
async def test_a_session_with_a_damaged_index_answers_as_if_it_were_whole(layout: Layout, damaged: str) -> None:
    database = store(layout, "s", *DRAFTS)
    store(layout, "other", said("alpha in a whole session"))
    whole = await answers(layout)
    spoil(database, damaged)
    kept = database.read_bytes()
    found = await answers(layout)
    words = [answer.pop("search_index", None) for answer in found]
    assert found == whole
    assert words.count(None) < len(words)
    assert {standin.SAID if isinstance(word, str) else word["s"] for word in words if word} == {standin.SAID}
    assert database.read_bytes() == kept


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("table", ["messages_fts", "lines_fts", "lines"])
async def test_a_session_without_one_of_its_tables_answers_as_if_it_were_whole(layout: Layout, table: str) -> None:
    database = store(layout, "s", *DRAFTS)
    whole = await answers(layout)
    connection = apsw.Connection(str(database))
    connection.execute(f"DROP TABLE {table}")
    connection.close()
    found = await answers(layout)
    words = [answer.pop("search_index", None) for answer in found]
    assert found == whole
    assert words == [{"s": standin.SAID}] * 3 + [standin.SAID] * 2
    assert layout.mend("s").exists()
    store(layout, "s", *DRAFTS)
    assert await answers(layout) == whole


@pytest.mark.usefixtures("scratch")
async def test_to_ask_for_a_new_index_does_not_prolong_a_session(layout: Layout) -> None:
    database = store(layout, "s", *DRAFTS)
    spoil(database, "messages_fts_data")
    for path in layout.sessions.iterdir():
        os.utime(path, (1_000_000_000.0, 1_000_000_000.0))
    assert json.loads(await Tools(layout, layout.root).smart_compact_search("alpha"))["search_index"]
    assert layout.mend("s").exists()
    assert retention.sweep(layout, ttl_days=30, now=1_000_000_000.0 + 31 * retention.DAY) == ("s",)


@pytest.mark.usefixtures("scratch")
async def test_the_sessions_next_request_makes_the_index_whole(layout: Layout) -> None:
    spoil(store(layout, "s", *DRAFTS), "messages_fts_data")
    assert json.loads(await Tools(layout, layout.root).smart_compact_search("alpha"))["search_index"]
    assert layout.mend("s").exists()
    store(layout, "s", *DRAFTS, said("one more"))
    assert not layout.mend("s").exists()
    answer = json.loads(await Tools(layout, layout.root).smart_compact_search("alpha"))
    assert "search_index" not in answer
    assert answer["total_matches"] == 31


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("arguments", [{"query": "alpha"}, {"pattern": "alpha"}])
async def test_a_session_whose_messages_are_damaged_is_named_and_the_others_answer(
    layout: Layout, arguments: dict[str, str]
) -> None:
    spoil(store(layout, "s", *DRAFTS), "messages")
    store(layout, "other", said("alpha in a whole session"))
    answer = json.loads(await Tools(layout, layout.root).smart_compact_search(**arguments))
    assert answer["skipped"] == {"s": "damaged"}
    assert "other" in [result["session_id"] for result in answer["results"]]
    assert "search_index" not in answer
    assert not layout.mend("s").exists()


async def test_a_file_with_which_nothing_is_wrong_is_neither_copied_nor_flagged(layout: Layout) -> None:
    database = store(layout, "s", *DRAFTS)
    async with standin.copies({"s": database}) as found:
        assert found == {}
    assert not layout.mend("s").exists()


@pytest.mark.usefixtures("scratch")
@pytest.mark.parametrize("arguments", [{"query": "alpha"}, {"pattern": "alpha"}])
async def test_a_text_that_is_no_text_any_more_takes_no_other_row_along(
    layout: Layout, arguments: dict[str, str]
) -> None:
    """A changed byte inside a text is no damage to SQLite."""
    database = store(layout, "s", said("alpha first"), replied("x"), said("alpha second"))
    connection = apsw.Connection(str(database))
    connection.execute("UPDATE messages SET text = CAST(x'616c706861ff' AS TEXT) WHERE seq = 3")
    connection.close()
    answer = json.loads(await Tools(layout, layout.root).smart_compact_search(**arguments))
    assert answer["skipped"] == {"s": "damaged"}


async def test_a_cancelled_call_ends_the_copying_and_leaves_nothing(
    layout: Layout, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = store(layout, "s", *DRAFTS)
    spoil(database, "lines_fts_data")
    begun, ended = anyio.Event(), anyio.Event()
    original = salvage.copy

    def endless(*given: Any, stop: Any, **more: Any) -> None:
        original(*given, stop=stop, **more)
        anyio.from_thread.run_sync(begun.set)
        while not stop():
            pass
        anyio.from_thread.run_sync(ended.set)

    monkeypatch.setattr(salvage, "copy", endless)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                async with standin.copies({"s": database}):
                    raise AssertionError("the copying never ends")

            group.start_soon(ask)
            await begun.wait()
            group.cancel_scope.cancel()
        await ended.wait()
        while list(scratch.iterdir()):
            await anyio.lowlevel.checkpoint()
