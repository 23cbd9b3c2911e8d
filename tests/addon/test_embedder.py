"""Whose turn it is in the background embedding, and when a session that failed is tried again."""

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import pytest
from openmem_addon import embedder
from openmem_addon.embedder import Background
from openmem_addon.filling import Work
from openmem_store.embedding import UnavailableError
from openmem_store.layout import Layout
from openmem_store.queue import WriteQueue
from openmem_store.rows import chain
from openmem_store.settings import Settings
from openmem_store.writer import SessionWriter

from tests.addon.house import AT, House
from tests.embeddings import Scripted, hashed, served, vector
from tests.store.reader.conversation import said, store

MODEL = {"embedding_model": "m", "embedding_timeout_s": 30.0}


@pytest.fixture
def fake() -> Scripted:
    return Scripted()


@pytest.fixture
def work(house: House, fake: Scripted) -> Work:
    settings = msgspec.structs.replace(house.settings, **MODEL)
    made = embedder.work(settings, house.layout, house.queue, log=house.lines.append, clock=fake.clock)
    assert made is not None
    return msgspec.structs.replace(made, embedder=fake)


@pytest.fixture
def background(work: Work) -> Background:
    return Background(work, threads=0)


def filled(house: House, sid: str, number: int) -> None:
    rows = chain(said(f"{sid} {each}") for each in range(number))
    job = partial(SessionWriter.sync, rows=rows, dropped=(), cut=None, owned=0, blobs={}, at=AT)
    house.queue.call(sid, job).result()


def drain(background: Background) -> None:
    while background.turn():
        pass


def owners(fake: Scripted) -> list[str]:
    """Name the session of each call."""
    return [call[0].split()[0] for call in fake.calls]


def stored(house: House, sid: str) -> int:
    ((found,),) = house.select("SELECT count(*) FROM vectors WHERE model = 'm' AND dim > 0", sid)
    return found


def test_without_a_model_there_is_nothing_to_do(tmp_path: Path, house: House) -> None:
    assert embedder.work(Settings(root=tmp_path), house.layout, house.queue, log=print) is None


def test_a_local_model_that_is_not_installed_is_said_so(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openmem_store.localmodel.PACKAGES", ("no_such_package",))
    with pytest.raises(UnavailableError, match="local-embeddings"):
        embedder.work(Settings(root=tmp_path, embedding_model="local"), house.layout, house.queue, log=print)


def test_sessions_take_turns_call_by_call(house: House, background: Background, fake: Scripted) -> None:
    """One with many rows must not keep the others waiting."""
    for sid, rows in (("long", 60), ("a", 4), ("b", 3)):
        filled(house, sid, rows)
        background.stored(sid)
    drain(background)
    assert owners(fake) == ["long", "a", "b", "long", "long", "long"]
    assert [stored(house, sid) for sid in ("long", "a", "b")] == [60, 4, 3]


def test_rows_stored_while_a_session_waits_are_embedded(house: House, background: Background, fake: Scripted) -> None:
    filled(house, "a", 4)
    background.stored("a")
    assert background.turn()
    filled(house, "a", 6)
    background.stored("a")
    drain(background)
    assert stored(house, "a") == 6
    calls = len(fake.calls)
    background.stored("a")
    drain(background)
    assert len(fake.calls) == calls, "a session without missing rows makes no call"


def test_a_session_whose_endpoint_is_down_waits_60_seconds(
    house: House, background: Background, fake: Scripted
) -> None:
    filled(house, "a", 4)
    fake.fails = lambda texts: True
    background.stored("a")
    drain(background)
    assert fake.sizes == [4, 2, 1, 1, 1]
    down_at = fake.now
    background.stored("a")
    assert not background.turn()
    fake.now = down_at + 59.9
    assert not background.turn()
    fake.now = down_at + 60
    fake.fails = lambda texts: False
    drain(background)
    assert stored(house, "a") == 4, "it is tried again by itself"


def test_a_session_that_waits_does_not_hold_up_another(house: House, background: Background, fake: Scripted) -> None:
    filled(house, "bad", 3)
    filled(house, "good", 3)
    fake.fails = lambda texts: any(text.startswith("bad") for text in texts)
    background.stored("bad")
    background.stored("good")
    drain(background)
    assert (stored(house, "bad"), stored(house, "good")) == (0, 3)


class Slow:
    """Holds every call that has a text of one session until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.held = threading.Event()

    def embed(self, texts: Sequence[str], *, timeout: float) -> list[bytes]:
        if texts[0].startswith("slow"):
            self.held.set()
            self.go.wait()
        return [vector(*hashed(text)) for text in texts]


def test_four_sessions_at_once_are_all_embedded_while_a_call_of_one_hangs(house: House, work: Work) -> None:
    slow = Slow()
    done = {sid: threading.Semaphore(0) for sid in ("slow", "b", "c", "d")}

    def told(sid: str, vectors: Mapping[str, bytes]) -> None:
        work.store(sid, vectors)
        done[sid].release(len(vectors))

    background = Background(msgspec.structs.replace(work, embedder=slow, store=told))
    try:
        for sid in done:
            filled(house, sid, 50)
            background.stored(sid)
        assert slow.held.wait(20)
        for sid in ("b", "c", "d"):
            assert all(done[sid].acquire(timeout=20) for _ in range(50)), sid
        slow.go.set()
        assert all(done["slow"].acquire(timeout=20) for _ in range(50))
    finally:
        slow.go.set()
        background.close()
    assert {sid: stored(house, sid) for sid in done} == dict.fromkeys(done, 50)


def test_threads_try_a_session_again_when_its_time_has_come(house: House, work: Work, fake: Scripted) -> None:
    """The clock goes on by 30 s whenever it is looked at, so the 60 s are over at once."""
    filled(house, "a", 3)
    failing = iter([True] * 4)
    fake.fails = lambda texts: next(failing, False)
    clock = partial(next, count(0, 30))
    done = threading.Semaphore(0)

    def told(sid: str, vectors: Mapping[str, bytes]) -> None:
        work.store(sid, vectors)
        done.release(len(vectors))

    background = Background(msgspec.structs.replace(work, clock=clock, store=told), threads=1)
    try:
        background.stored("a")
        assert all(done.acquire(timeout=20) for _ in range(3))
    finally:
        background.close()
    assert fake.sizes[:4] == [3, 1, 1, 1]
    assert stored(house, "a") == 3


def test_a_closed_embedder_begins_no_call(house: House, work: Work, fake: Scripted) -> None:
    filled(house, "a", 1)
    background = Background(work, threads=1)
    background.close()
    background.stored("a")
    assert fake.calls == []


def test_a_queue_that_closes_meanwhile_ends_the_run_without_a_word(tmp_path: Path, fake: Scripted, work: Work) -> None:
    layout = Layout(tmp_path / "other")
    layout.prepare()
    store(layout, "a", said("one"))
    lines: list[str] = []
    queue = WriteQueue(layout, version="proxy:0123456789ab", log=lines.append)
    queue.close()
    settings = Settings(root=layout.root, **MODEL)
    made = embedder.work(settings, layout, queue, log=lines.append, clock=fake.clock)
    assert made is not None
    background = Background(msgspec.structs.replace(made, embedder=fake), threads=0)
    background.stored("a")
    drain(background)
    assert lines == ["openmem-context: embedded rows=1 seconds=0.50 batch=4"]


def test_the_settings_reach_the_endpoint(house: House) -> None:
    with served() as endpoint:
        settings = msgspec.structs.replace(
            house.settings, embedding_url=endpoint.url, embedding_api_key="sk-neutral", embedding_max_chars=3, **MODEL
        )
        work = embedder.work(settings, house.layout, house.queue, log=house.lines.append)
        assert work is not None
        store(house.layout, "a", said("abcdef"))
        background = Background(work, threads=0)
        background.stored("a")
        drain(background)
    (request,) = endpoint.requests
    assert request.body == {"model": "m", "input": ["abc"]}
    assert request.headers["authorization"] == "Bearer sk-neutral"
    assert stored(house, "a") == 1
