"""Hold the way to disk to its promises: one writer, a state on disk before a body leaves, one line per failure."""

from typing import Any

import pytest
from openmem_addon import switch, trimstate
from openmem_addon.core.view import Thread, View
from openmem_addon.session import Sessions
from openmem_addon.storage import Session, Storage, Wishes
from openmem_addon.trimstate import TrimState
from openmem_store.events import FailOpen
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter, WriterBusy

from tests.addon.house import AT, NOW, SID, House
from tests.conversations import body, chat, user

KEY = "main/root"
THREAD = Thread(base=View(instruct=True))


@pytest.fixture
def storage(house: House) -> Storage:
    return Storage(house.layout, house.queue, disk=house.disk, log=house.lines.append, now=lambda: NOW)


@pytest.fixture
async def session(storage: Storage) -> Session:
    """Return a session that is ours."""
    made = Session(SID)
    await storage.prepare(made)
    return made


def raises(error: Exception) -> Any:
    def call(*_: object, **__: object) -> None:
        raise error

    return call


async def test_a_session_becomes_ours_and_its_state_is_read_once(house: House, storage: Storage) -> None:
    trimstate.write(house.layout, SID, TrimState(threads={KEY: THREAD}).encoded())
    session = Session(SID)
    await storage.prepare(session)
    assert (session.owner, session.loaded, session.state.threads) == (True, True, {KEY: THREAD})
    trimstate.write(house.layout, SID, TrimState().encoded())
    await storage.prepare(session)
    assert session.state.threads == {KEY: THREAD}


@pytest.mark.parametrize("error", [WriterBusy("taken"), OSError(13, "denied")])
async def test_a_session_that_is_not_ours_is_read_each_time_and_asked_for_again(
    house: House, storage: Storage, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    session = Session(SID)
    with monkeypatch.context() as broken:
        broken.setattr(SessionWriter, "__init__", raises(error))
        for threads in ({KEY: THREAD}, {}):
            trimstate.write(house.layout, SID, TrimState(threads=threads).encoded())
            await storage.prepare(session)
            assert (session.owner, session.state.threads) == (False, threads)
        assert len(house.lines) == 1
    await storage.prepare(session)
    assert session.owner


async def test_a_session_that_was_lost_is_prepared_anew(house: House, storage: Storage, session: Session) -> None:
    storage.lost(session)
    trimstate.write(house.layout, SID, TrimState(threads={KEY: THREAD}).encoded())
    await storage.prepare(session)
    assert (session.owner, session.state.threads) == (True, {KEY: THREAD})


async def test_a_saved_state_is_on_disk_when_the_call_returns(house: House, storage: Storage, session: Session) -> None:
    await storage.save(session, KEY, THREAD, must=True, wait=True)
    assert house.state().threads == {KEY: THREAD}


async def test_a_state_that_must_be_on_disk_and_is_not_is_taken_back(
    house: House, storage: Storage, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimstate, "write", raises(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        await storage.save(session, KEY, THREAD, must=True, wait=True)
    assert (session.state.threads, session.state.latest) == ({}, {})


async def test_a_state_that_need_not_be_on_disk_is_kept_in_memory_with_one_line(
    house: House, storage: Storage, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimstate, "write", raises(OSError(28, "full")))
    for _ in range(2):
        await storage.save(session, KEY, THREAD, must=False, wait=True)
    assert session.state.threads == {KEY: THREAD}
    assert house.lines == [
        "openmem-context: session s-1: the trim state cannot be written (OSError) and is kept in memory"
    ]


async def test_a_state_of_another_process_is_not_saved(house: House, storage: Storage) -> None:
    session = Session(SID)
    await storage.save(session, KEY, THREAD, must=True, wait=True)
    assert not house.layout.trim(SID).exists()


async def test_a_failure_behind_a_request_is_one_line_until_a_write_succeeds(
    house: House, storage: Storage, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = FailOpen(location="x.py:1", error="KeyError")
    with monkeypatch.context() as broken:
        broken.setattr(SessionWriter, "record", raises(RuntimeError("disk")))
        for _ in range(3):
            storage.record(session, event)
        storage.record(session, event, quiet=True)
        await house.settle()
        assert [line.split(" at ")[0] for line in house.lines] == ["openmem-context: fail-open RuntimeError"]
    storage.record(session, event)
    await house.settle()
    assert house.events("fail_open", "at, location, error") == [(AT, "x.py:1", "KeyError")]
    monkeypatch.setattr(SessionWriter, "record", raises(RuntimeError("disk")))
    storage.record(session, event)
    await house.settle()
    assert len(house.lines) == 2


async def test_a_writer_lost_behind_a_request_is_noticed(
    house: House, storage: Storage, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SessionWriter, "record", raises(WriterBusy("taken")))
    storage.record(session, FailOpen(location="x.py:1", error="KeyError"))
    await house.settle()
    assert (session.owner, session.loaded) == (False, False)


async def test_what_a_person_asks_is_seen_and_taken_away_in_order(
    house: House, storage: Storage, session: Session
) -> None:
    assert await storage.wishes(session) == Wishes("on", False)
    house.layout.force(SID).touch()
    switch.turn(house.layout, None, "off")
    assert await storage.wishes(session) == Wishes("off", True)
    storage.consume_force(session)
    switch.turn(house.layout, SID, "raw")
    assert await storage.wishes(session) == Wishes("raw", False)
    storage.consume_force(session)
    await house.settle()
    assert house.lines == []


async def test_a_new_lane_knows_how_many_rows_another_stored_first(
    house: House, storage: Storage, session: Session
) -> None:
    rows = chain(Draft("user", "text", None, text) for text in ("a", "b", "c"))
    assert await storage.stored_elsewhere(session, rows) == 0
    await storage.save(session, KEY, THREAD, must=True, wait=True)

    def sync(writer: SessionWriter) -> None:
        writer.sync(rows[:2], dropped=(), cut=None, owned=0, blobs={}, at=AT)

    house.queue.call(SID, sync).result()
    assert await storage.stored_elsewhere(session, rows) == 2


async def test_a_line_about_a_session_is_told_once(house: House, storage: Storage, session: Session) -> None:
    for _ in range(2):
        storage.tell(session, "one thing")
    storage.tell(session, "another")
    assert house.lines == ["openmem-context: session s-1: one thing", "openmem-context: session s-1: another"]


async def test_changed_threads_of_other_sessions_are_found(house: House, storage: Storage, session: Session) -> None:
    trimstate.write(house.layout, "other", TrimState(threads={KEY: THREAD}).encoded())
    assert await storage.changed_elsewhere(session) == [("other", KEY, THREAD)]


async def test_who_embeds_is_told_when_rows_were_written_and_only_then(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    sessions = Sessions(
        house.settings,
        house.layout,
        house.queue,
        workers=house.workers,
        disk=house.disk,
        log=house.lines.append,
        stored=told.append,
    )
    house.sessions = sessions
    with monkeypatch.context() as broken:
        broken.setattr(SessionWriter, "sync", raises(OSError(28, "full")))
        await house.ask(body(*chat(1), user("first")))
        await house.settle()
        assert told == []
    await house.ask(body(*chat(1), user("first")))
    await house.settle()
    assert told == [SID]
