"""Work beside the event loop."""

import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from openmem_store.layout import Layout
from openmem_store.reader import scope, search, threads, words

from tests.store.reader.conversation import said, store


async def cancelled(
    work: Callable[[], object], begun: threading.Event, then: Callable[[], object] = lambda: None
) -> BaseException | None:
    """Cancel a call while its work runs, do something, and return how the work ended."""
    ended = threading.Event()
    raised: list[BaseException] = []

    def watched() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)
            raise
        finally:
            ended.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(threads.run, watched)
            assert await anyio.to_thread.run_sync(begun.wait, 60)
            group.cancel_scope.cancel()
        then()
        assert await anyio.to_thread.run_sync(ended.wait, 60)
    return raised[0] if raised else None


async def test_a_result_and_an_error_come_back() -> None:
    assert await threads.run(lambda a, b: a + b, 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)


async def test_work_that_nobody_waits_for_stops_at_its_next_step() -> None:
    begun = threading.Event()

    def work() -> None:
        begun.set()
        while True:
            threads.check()

    assert isinstance(await cancelled(work, begun), threads.StoppedError)


async def test_calls_do_not_stop_each_other() -> None:
    begun = threading.Event()
    assert isinstance(await cancelled(lambda: endless(begun), begun), threads.StoppedError)
    assert await threads.run(threads.check) is None
    threads.check()


def endless(begun: threading.Event) -> None:
    begun.set()
    while True:
        threads.check()


@pytest.mark.parametrize("step", ["sessions", "texts"])
async def test_a_search_stops_between_sessions_and_between_texts(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    files: dict[str, Path] = {sid: store(layout, sid, *[said(f"row {n}") for n in range(3)]) for sid in "ab"}
    begun, go = threading.Event(), threading.Event()
    asked: list[str] = []
    original = words.parse

    def slow(query: str, tokenizer: words.Tokenizer) -> tuple[words.Word, ...]:
        asked.append(query)
        if len(asked) == (1 if step == "sessions" else 2):
            begun.set()
            assert go.wait(60)
        return original(query, tokenizer)

    monkeypatch.setattr(words, "parse", slow)
    request = search.Request(scope.Scope(("user",), None, include_echoes=False), 8)

    ended = await cancelled(lambda: search.search("zzz", request, files, why="test"), begun, go.set)
    assert isinstance(ended, threads.StoppedError)
    assert len(asked) == (1 if step == "sessions" else 2)
