"""One run of embedding: the size of its calls, and every rule about failures, byte for byte in the log.

Whose rule: the store's contract on vectors, sections Batches and Failures.
"""

import threading
from collections.abc import Iterable

import apsw
import pytest
from openmem_addon.filling import MOST_ROWS, Pace, Run, Work
from openmem_store.endpoint import Endpoint
from openmem_store.layout import Layout
from openmem_store.writer import SessionWriter

from tests import embeddings
from tests.embeddings import Request, Scripted, hashed, served, vector
from tests.store.reader.conversation import VERSION, said, store


@pytest.fixture
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    made = Layout(tmp_path_factory.mktemp("store") / "context")
    made.prepare()
    return made


@pytest.fixture
def fake() -> Scripted:
    return Scripted()


@pytest.fixture
def log() -> list[str]:
    return []


@pytest.fixture
def work(layout: Layout, fake: Scripted, log: list[str]) -> Work:
    def stored(sid: str, vectors: dict[str, bytes]) -> None:
        writer = SessionWriter(layout.database(sid), version=VERSION)
        try:
            writer.store_vectors("m", vectors)
        finally:
            writer.close()

    return Work(
        layout=layout,
        embedder=fake,
        model="m",
        timeout_s=30.0,
        max_chars=4000,
        store=stored,  # type: ignore[arg-type]
        clock=fake.clock,
        log=log.append,
        pace=Pace(),
    )


def texts(count: int) -> list[str]:
    return [f"row {number}" for number in range(1, count + 1)]


def filled(layout: Layout, count: int) -> None:
    store(layout, "s", *map(said, texts(count)))


def run(work: Work, sid: str = "s") -> tuple[Run, str]:
    """Play a run to its end."""
    made = Run(sid, work)
    while (outcome := made.turn()) == "more":
        pass
    return made, outcome


def vectors(layout: Layout) -> dict[int, tuple[str, int, bytes]]:
    connection = apsw.Connection(str(layout.database("s")), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found = connection.execute("SELECT message_seq, model, dim, blob FROM vectors").fetchall()
    finally:
        connection.close()
    return {seq: (model, dim, blob) for seq, model, dim, blob in found}  # type: ignore[misc]


def bad(*rows: str):
    """Return the rule by which every call that has one of these rows fails."""
    return lambda texts: not set(rows).isdisjoint(texts)


def seconds(lines: Iterable[str]) -> list[str]:
    return [line.removeprefix("openmem-context: ") for line in lines]


def test_every_row_gets_a_vector_the_newest_first(layout: Layout, fake: Scripted, work: Work) -> None:
    filled(layout, 5)
    made, outcome = run(work)
    assert (outcome, made.embedded, made.skipped) == ("done", 5, 0)
    assert fake.calls == [["row 5", "row 4", "row 3", "row 2"], ["row 1"]]
    assert vectors(layout) == {seq: ("m", 8, vector(*hashed(f"row {seq}"))) for seq in range(1, 6)}


def test_calls_start_at_4_rows_and_double_to_32_while_they_are_quick(
    layout: Layout, fake: Scripted, work: Work, log: list[str]
) -> None:
    filled(layout, 100)
    run(work)
    assert fake.sizes == [4, 8, 16, 32, 32, 8]
    assert fake.timeouts == [size * 30.0 for size in fake.sizes]
    assert log == [
        "openmem-context: embedded rows=4 seconds=0.50 batch=8",
        "openmem-context: embedded rows=8 seconds=0.50 batch=16",
        "openmem-context: embedded rows=16 seconds=0.50 batch=32",
        "openmem-context: embedded rows=32 seconds=0.50 batch=32",
        "openmem-context: embedded rows=32 seconds=0.50 batch=32",
        "openmem-context: embedded rows=8 seconds=0.50 batch=32",
    ]


def test_a_full_call_that_takes_a_quarter_of_its_timeout_does_not_grow(
    layout: Layout, fake: Scripted, work: Work, log: list[str]
) -> None:
    filled(layout, 8)
    fake.seconds = 30.0
    run(work)
    assert fake.sizes == [4, 4]
    assert log == ["openmem-context: embedded rows=4 seconds=30.00 batch=4"] * 2


def test_the_size_persists_between_runs(layout: Layout, fake: Scripted, work: Work) -> None:
    filled(layout, 12)
    run(work)
    store(layout, "other", *map(said, texts(20)))
    run(work, "other")
    assert fake.sizes == [4, 8, 16, 4]


def test_a_failed_call_halves_and_the_run_grows_no_larger_than_that(
    layout: Layout, fake: Scripted, work: Work, log: list[str]
) -> None:
    filled(layout, 40)
    fake.fails = lambda texts: len(texts) > 8
    run(work)
    assert fake.sizes == [4, 8, 16, 8, 8, 8, 4]
    assert log[2] == "openmem-context: embedding batch failed DownError rows=16 seconds=0.50 batch=8"
    fake.fails = lambda texts: False
    store(layout, "next", *map(said, texts(40)))
    run(work, "next")
    assert fake.sizes[7:] == [8, 16, 16]


def test_a_row_that_fails_alone_is_set_aside_and_the_others_are_embedded(
    layout: Layout, fake: Scripted, work: Work, log: list[str]
) -> None:
    filled(layout, 6)
    fake.fails = bad("row 5")
    made, outcome = run(work)
    assert (outcome, made.embedded) == ("done", 5)
    assert fake.calls == [
        ["row 6", "row 5", "row 4", "row 3"],
        ["row 6", "row 5"],
        ["row 6"],
        ["row 5"],
        ["row 4"],
        ["row 3"],
        ["row 2"],
        ["row 1"],
    ]
    assert log[:4] == [
        "openmem-context: embedding batch failed DownError rows=4 seconds=0.50 batch=2",
        "openmem-context: embedding batch failed DownError rows=2 seconds=0.50 batch=1",
        "openmem-context: embedded rows=1 seconds=0.50 batch=1",
        "openmem-context: embedding batch failed DownError rows=1 seconds=0.50 batch=1",
    ]
    assert sorted(vectors(layout)) == [1, 2, 3, 4, 6]


def test_a_row_that_failed_comes_after_rows_that_never_did(layout: Layout, fake: Scripted, work: Work) -> None:
    filled(layout, 2)
    fake.fails = bad("row 2")
    run(work)
    filled(layout, 3)
    fake.calls.clear()
    run(work)
    assert fake.calls == [["row 3"], ["row 2"]]


def test_after_3_failures_a_row_is_given_up_while_others_succeed(
    layout: Layout, fake: Scripted, work: Work, log: list[str]
) -> None:
    fake.fails = bad("row 1")
    for count in (2, 3, 4):
        filled(layout, count)
        made, outcome = run(work)
        assert outcome == "done"
    assert log[-2:] == [
        "openmem-context: embedding batch failed DownError rows=1 seconds=0.50 batch=1",
        "openmem-context: embedding skipped seq=1 after 3 failures",
    ]
    assert (made.skipped, vectors(layout)[1]) == (1, ("m", 0, b""))
    fake.calls.clear()
    assert run(work)[1] == "done"
    assert fake.calls == [], "a row given up is never tried again"


def test_a_bad_row_that_waits_alone_is_given_up_too_once_another_text_succeeds(
    layout: Layout, fake: Scripted, work: Work, log: list[str]
) -> None:
    """Else a session whose last row is bad would never be done."""
    filled(layout, 1)
    fake.fails = bad("row 1")
    assert [run(work)[1] for _ in range(3)] == ["done"] * 3
    assert fake.calls == [["row 1"], ["row 1"], ["row 1"], ["probe"]]
    assert seconds(log) == [
        "embedding batch failed DownError rows=1 seconds=0.50 batch=4",
        "embedding batch failed DownError rows=1 seconds=0.50 batch=4",
        "embedding batch failed DownError rows=1 seconds=0.50 batch=4",
        "embedded rows=1 seconds=0.50 batch=4",
        "embedding skipped seq=1 after 3 failures",
    ]


def test_three_rows_that_fail_before_any_succeeds_mean_that_the_endpoint_is_down(
    layout: Layout, fake: Scripted, work: Work, log: list[str]
) -> None:
    filled(layout, 9)
    fake.fails = lambda texts: True
    assert run(work)[1] == "down"
    assert fake.calls == [
        ["row 9", "row 8", "row 7", "row 6"],
        ["row 9", "row 8"],
        ["row 9"],
        ["row 8"],
        ["row 7"],
    ]
    where = log.pop().rpartition(" at ")
    assert where[0] == "openmem-context: embedding failed DownError"
    assert where[2].startswith("filling.py:")
    assert seconds(log) == [
        "embedding batch failed DownError rows=4 seconds=0.50 batch=2",
        "embedding batch failed DownError rows=2 seconds=0.50 batch=1",
        "embedding batch failed DownError rows=1 seconds=0.50 batch=1",
        "embedding batch failed DownError rows=1 seconds=0.50 batch=1",
        "embedding batch failed DownError rows=1 seconds=0.50 batch=1",
    ]


def test_an_outage_costs_no_row(layout: Layout, fake: Scripted, work: Work) -> None:
    """Rows that failed while nothing else succeeded are tried again, however often that was."""
    filled(layout, 3)
    fake.fails = lambda texts: True
    for _ in range(5):
        assert run(work)[1] == "down"
    fake.fails = lambda texts: False
    assert run(work)[1] == "done"
    assert {seq: dim for seq, (_, dim, _) in vectors(layout).items()} == {1: 8, 2: 8, 3: 8}
    assert not work.pace.failed


def test_three_bad_rows_do_not_keep_the_others_waiting_for_ever(layout: Layout, fake: Scripted, work: Work) -> None:
    filled(layout, 6)
    fake.fails = bad("row 6", "row 5", "row 4")
    assert run(work)[1] == "down"
    assert run(work)[1] == "done"
    assert sorted(vectors(layout)) == [1, 2, 3]


def test_only_the_head_of_a_row_is_sent(layout: Layout, fake: Scripted, work: Work) -> None:
    store(layout, "s", said("木" * 5000), said("  \n"), said("short"))
    run(work)
    assert fake.calls == [["short", "木" * 4000]]


def test_a_session_that_was_deleted_is_done_and_no_file_appears(layout: Layout, fake: Scripted, work: Work) -> None:
    assert run(work, "gone")[1] == "done"
    assert not layout.database("gone").exists()


def test_a_store_that_cannot_write_stops_the_run(layout: Layout, fake: Scripted, work: Work, log: list[str]) -> None:
    filled(layout, 2)
    connection = apsw.Connection(str(layout.database("s")))
    connection.execute("BEGIN IMMEDIATE")
    try:
        assert run(work)[1] == "down"
    finally:
        connection.close()
    assert log[-1].startswith("openmem-context: embedding failed BusyError at writer.py:")
    assert run(work)[1] == "done"


def test_a_damaged_database_stops_the_run(layout: Layout, fake: Scripted, work: Work, log: list[str]) -> None:
    layout.database("s").write_bytes(b"no database at all " * 300)
    assert run(work)[1] == "down"
    (line,) = log
    assert line.startswith("openmem-context: embedding failed NotADBError at schema.py:")


def test_against_an_endpoint_the_types_of_its_failures_are_what_the_log_shows(
    layout: Layout, fake: Scripted, work: Work, log: list[str]
) -> None:
    filled(layout, 2)
    go = threading.Event()
    answers = iter(["refuse", "hang", "nonsense"])

    def reply(request: Request) -> tuple[int, bytes]:
        match next(answers, "answer"):
            case "refuse":
                return 500, b"no"
            case "hang":
                go.wait()
            case "nonsense":
                return 200, b"<html>"
        return embeddings.vectors(request)

    with served(reply) as endpoint:
        import msgspec

        work = msgspec.structs.replace(work, embedder=Endpoint(endpoint.url, "m"), timeout_s=0.2)
        try:
            run(work)
            run(work)
        finally:
            go.set()
    assert seconds(log) == [
        "embedding batch failed HTTPStatusError rows=2 seconds=0.00 batch=1",
        "embedding batch failed ReadTimeout rows=1 seconds=0.00 batch=1",
        "embedding batch failed DecodeError rows=1 seconds=0.00 batch=1",
        "embedded rows=1 seconds=0.00 batch=2",
        "embedded rows=1 seconds=0.00 batch=2",
    ]
    assert sorted(vectors(layout)) == [1, 2]


def test_the_largest_call_is_32_rows() -> None:
    assert MOST_ROWS == 32
