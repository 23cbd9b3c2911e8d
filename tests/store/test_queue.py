import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from pathlib import Path

import apsw
import pytest
from openmem_store import schema
from openmem_store.events import Trim
from openmem_store.layout import Layout
from openmem_store.queue import QueueClosed, QueueFull, WriteQueue
from openmem_store.rows import Draft, Row, chain
from openmem_store.writer import SessionWriter, WriterBusy

from tests.store import unprivileged

LONG = 30.0
"""Seconds after which a test gives up waiting for another thread."""


class Gate:
    """A job that says when it runs and then waits to be let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self, writer: SessionWriter) -> str:
        self.entered.set()
        assert self.open.wait(LONG)
        return "done"


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def make(layout: Layout, log: list[str]) -> Iterator[Callable[..., WriteQueue]]:
    """Return a maker of queues; all of them are closed in the end."""
    made: list[WriteQueue] = []

    def queue(**options: int) -> WriteQueue:
        made.append(WriteQueue(layout, version="proxy:0123456789ab", log=log.append, **options))
        return made[-1]

    yield queue
    for one in made:
        one.close()


def sync(rows: tuple[Row, ...]) -> Callable[[SessionWriter], None]:
    return lambda writer: writer.sync(rows, dropped=(), cut=None, owned=0, blobs={}, at="t")


def count(path: Path) -> object:
    connection = schema.open_reader(path)
    try:
        return connection.execute("SELECT count(*) FROM messages").get
    finally:
        connection.close()


def open_databases() -> int:
    return sum(1 for connection in apsw.connections() if connection.filename)


def test_a_job_runs_on_the_sessions_writer_and_its_result_comes_back(
    make: Callable[..., WriteQueue], layout: Layout
) -> None:
    queue = make()
    rows = chain([Draft("user", "text", None, "a")])
    assert queue.call("s", sync(rows)).result(LONG) is None
    assert queue.call("s", lambda writer: writer.leading_known(rows)).result(LONG) == 1
    assert count(layout.database("s")) == 1


def test_jobs_of_one_session_run_one_at_a_time_in_their_order(make: Callable[..., WriteQueue]) -> None:
    queue = make(workers=4)
    running, most, order = 0, 0, list[int]()
    guard = threading.Lock()

    def job(number: int) -> Callable[[SessionWriter], None]:
        def run(writer: SessionWriter) -> None:
            nonlocal running, most
            with guard:
                running += 1
                most = max(most, running)
            order.append(number)
            writer.record(Trim(number, 0, 0), at="t")
            with guard:
                running -= 1

        return run

    for future in [queue.call("s", job(number)) for number in range(50)]:
        future.result(LONG)
    assert order == list(range(50))
    assert most == 1


def test_a_slow_session_does_not_hold_up_another(make: Callable[..., WriteQueue]) -> None:
    queue = make(workers=2)
    gate = Gate()
    slow = queue.call("slow", gate)
    assert gate.entered.wait(LONG)
    waiting = queue.call("slow", lambda writer: "second")
    assert [queue.call(f"s{n}", lambda writer: "quick").result(LONG) for n in range(3)] == ["quick"] * 3
    assert not waiting.done()
    gate.open.set()
    assert (slow.result(LONG), waiting.result(LONG)) == ("done", "second")


def test_an_exception_reaches_the_future_alone(make: Callable[..., WriteQueue], log: list[str]) -> None:
    queue = make()

    def fail(writer: SessionWriter) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        queue.call("s", fail).result(LONG)
    assert queue.call("s", lambda writer: "next").result(LONG) == "next"
    assert log == []


def test_a_session_of_another_writer_is_refused_until_it_is_free(
    make: Callable[..., WriteQueue], layout: Layout
) -> None:
    queue = make()
    other = SessionWriter(layout.database("s"), version="v")
    with pytest.raises(WriterBusy):
        queue.call("s", lambda writer: None).result(LONG)
    other.close()
    assert queue.call("s", lambda writer: "mine").result(LONG) == "mine"


def test_a_database_of_a_newer_version_is_given_free(make: Callable[..., WriteQueue], layout: Layout) -> None:
    connection = apsw.Connection(str(layout.database("s")))
    connection.execute("PRAGMA user_version = 4")
    connection.close()
    queue = make()
    with pytest.raises(schema.UnsupportedSchema):
        queue.call("s", sync(chain([Draft("user", "text", None, "a")]))).result(LONG)
    SessionWriter(layout.database("s"), version="newer").close()


def test_only_so_many_databases_stay_open(make: Callable[..., WriteQueue], layout: Layout) -> None:
    queue = make(max_open=2, workers=1)
    rows = chain([Draft("user", "text", None, "a")])
    before = open_databases()
    for number in (0, 1, 0, 2, 0):
        queue.call(f"s{number}", sync(rows)).result(LONG)
    assert queue.busy() == {"s0", "s2"}, "s1 went unused longest"
    assert open_databases() - before == 2
    SessionWriter(layout.database("s1"), version="v").close()
    assert queue.call("s1", lambda writer: writer.leading_known(rows)).result(LONG) == 1


def test_a_session_with_jobs_is_not_closed_for_another(make: Callable[..., WriteQueue]) -> None:
    queue = make(max_open=1, workers=2)
    gate = Gate()
    held = queue.call("held", gate)
    assert gate.entered.wait(LONG)
    for number in range(4):
        queue.call(f"s{number}", lambda writer: None).result(LONG)
    assert "held" in queue.busy()
    gate.open.set()
    assert held.result(LONG) == "done"


def test_a_session_is_not_opened_while_it_is_being_closed(
    make: Callable[..., WriteQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make(max_open=1, workers=2)
    entered, leave = threading.Event(), threading.Event()
    close = SessionWriter.close

    def slow(self: SessionWriter) -> None:
        if not entered.is_set():
            entered.set()
            assert leave.wait(LONG)
        close(self)

    monkeypatch.setattr(SessionWriter, "close", slow)
    queue.call("first", lambda writer: None).result(LONG)
    queue.call("second", lambda writer: None).result(LONG)
    assert entered.wait(LONG)
    again = queue.call("first", lambda writer: "opened again")
    queue.call("second", lambda writer: None).result(LONG)
    assert not again.done()
    leave.set()
    assert again.result(LONG) == "opened again"


def test_past_the_bound_jobs_are_refused_with_one_line(make: Callable[..., WriteQueue], log: list[str]) -> None:
    queue = make(max_bytes=100, workers=1)
    gate = Gate()
    first = queue.call("s", gate, size=60)
    assert gate.entered.wait(LONG)
    fits = queue.call("s", lambda writer: "fits", size=40)
    for _ in range(3):
        with pytest.raises(QueueFull):
            queue.call("t", lambda writer: None, size=1).result(LONG)
    assert log == ["openmem-context: write queue full, 100 bytes wait; jobs are refused"]
    gate.open.set()
    assert (first.result(LONG), fits.result(LONG)) == ("done", "fits")
    queue.call("s", lambda writer: None).result(LONG)
    assert queue.call("t", lambda writer: "again", size=100).result(LONG) == "again"
    assert len(log) == 1
    queue.call("s", lambda writer: None).result(LONG)
    gate = Gate()
    queue.call("s", gate, size=90)
    assert isinstance(queue.call("t", lambda writer: None, size=11).exception(LONG), QueueFull)
    gate.open.set()
    assert len(log) == 2, "it had recovered meanwhile"


def test_an_idle_queue_takes_a_job_larger_than_its_bound(make: Callable[..., WriteQueue]) -> None:
    """Else a very long history could never be stored."""
    queue = make(max_bytes=100)
    assert queue.call("s", lambda writer: "large", size=1_000).result(LONG) == "large"


def test_closing_finishes_what_waits_and_closes_every_database(make: Callable[..., WriteQueue], layout: Layout) -> None:
    queue = make(workers=2)
    before = open_databases()
    drafts = [Draft("user", "text", None, str(number)) for number in range(20)]
    futures = [queue.call(f"s{n % 3}", sync(chain(drafts[: n + 1]))) for n in range(20)]
    queue.close(LONG)
    assert all(future.done() and future.exception() is None for future in futures)
    assert [count(layout.database(f"s{n}")) for n in range(3)] == [19, 20, 18]
    assert open_databases() == before
    SessionWriter(layout.database("s0"), version="v").close()
    with pytest.raises(QueueClosed):
        queue.call("s0", lambda writer: None).result(LONG)


def test_closing_gives_up_on_a_job_that_does_not_end(make: Callable[..., WriteQueue], log: list[str]) -> None:
    queue = make(workers=1)
    gate = Gate()
    stuck = queue.call("s", gate)
    assert gate.entered.wait(LONG)
    left: list[Future[None]] = [queue.call(f"s{n}", lambda writer: None) for n in range(2)]
    queue.close(timeout=0.0)
    for future in left:
        with pytest.raises(CancelledError):
            future.result(LONG)
    assert log == ["openmem-context: write queue closed with 2 jobs unwritten"]
    gate.open.set()
    assert stuck.result(LONG) == "done"


def test_a_cancelled_job_does_not_run(make: Callable[..., WriteQueue]) -> None:
    queue = make(workers=1)
    gate, ran = Gate(), list[str]()
    queue.call("s", gate)
    assert gate.entered.wait(LONG)
    future = queue.call("s", lambda writer: ran.append("cancelled"))
    assert future.cancel()
    after = queue.call("s", lambda writer: ran.append("after"))
    gate.open.set()
    after.result(LONG)
    assert ran == ["after"]


def test_a_long_log_is_checkpointed_after_the_answer(make: Callable[..., WriteQueue], layout: Layout) -> None:
    queue = make(workers=1)
    rows = chain(Draft("user", "text", None, f"{n} " * 100_000) for n in range(30))
    queue.call("s", sync(rows)).result(LONG)
    queue.call("s", lambda writer: None).result(LONG)
    assert layout.database("s").stat().st_size > 4 << 20


WRITE = """
import json, os, resource
import apsw
from openmem_store import schema
from openmem_store.layout import Layout
from openmem_store.queue import WriteQueue
from openmem_store.rows import Draft, chain

layout = Layout(Path(sys.argv[1]))
log = []
queue = WriteQueue(layout, version="v", log=log.append)

def write(sid, rows):
    rows = chain(Draft("user", "text", None, str(number)) for number in range(rows))
    try:
        queue.call(sid, lambda writer: writer.sync(rows, dropped=(), cut=None, owned=0, blobs={}, at="t")).result(60)
    except (OSError, apsw.Error) as error:
        return type(error).__name__
    return "stored"

def done(said):
    queue.close()
    counts = {}
    for path in sorted(layout.sessions.glob("*.db")):
        connection = schema.open_reader(path)
        counts[path.stem] = connection.execute("SELECT count(*) FROM messages").get
        connection.close()
    print(json.dumps([said, log, counts]))
"""

CLOSE = """
folders = [layout.root / name for name in sys.argv[2:]]
said = [write("open", 1)]
for folder in folders:
    folder.chmod(0o500)
said += [write("open", 2), write("old", 2), write("new", 1)]
for folder in folders:
    folder.chmod(0o700)
said += [write("open", 3), write("old", 3), write("new", 2)]
done(said)
"""


@pytest.mark.parametrize("folders", [["sessions"], ["sessions", "."]])
def test_a_folder_that_may_not_be_written_is_the_callers_to_know_and_the_next_request_heals_it(
    layout: Layout, say: Callable[..., tuple[Row, ...]], folders: list[str]
) -> None:
    """A session that is open has its files already."""
    writer = SessionWriter(layout.database("old"), version="v")
    sync(say("0"))(writer)
    writer.close()
    said, log, counts = unprivileged.run(WRITE + CLOSE, str(layout.root), *folders)
    assert said.pop(2) in ("ReadOnlyError", "CantOpenError")  # by SQLite's version
    assert said == ["stored", "stored", "PermissionError", "stored", "stored", "stored"]
    assert log == []
    assert counts == {"new": 2, "old": 3, "open": 3}


EXHAUST = """
said = [write("open", 1)]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
while True:
    try:
        taken.append(os.dup(2))
    except OSError:
        break
said += [write("open", 2), write("new", 1)]
os.close(taken.pop())
said += [write("new", 1)]
for each in taken:
    os.close(each)
said += [write("open", 3), write("new", 2)]
done(said)
"""


def test_without_a_descriptor_left_open_sessions_are_written_and_others_with_their_next_request(layout: Layout) -> None:
    said, log, counts = unprivileged.run(WRITE + EXHAUST, str(layout.root))
    assert said == ["stored", "stored", "OSError", "CantOpenError", "stored", "stored"]
    assert log == []
    assert counts == {"new": 2, "open": 3}
