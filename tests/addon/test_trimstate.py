"""Hold the state of a session to surviving a restart, and to never being taken for new when it is merely unreadable."""

import contextlib
import json
import os
import random
import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openmem_addon import trimstate
from openmem_addon.core.view import Sample, Sent, Tail, Thread, View
from openmem_addon.trimstate import TrimState
from openmem_store.layout import Layout

VIEW = View(
    active=True,
    instruct=True,
    cut=4,
    dropped=((1, 3), (5, 9)),
    gap=(5, 9),
    moved=(2,),
    moved_after=4,
    strip=11,
    note='[openmem: "…" 🏠]',
    compressed={"0123456789abcdef": 3},
    tokens_after=700,
    marks=((1, "a" * 32), (4, "b" * 32)),
)
THREAD = Thread(base=View(active=True, instruct=True), views=(VIEW,), owned=2, sent=Sent(12, "c" * 32), first_reply="r")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "context")
    made.prepare()
    return made


def filled() -> TrimState:
    state = TrimState()
    state.publish("main/one", THREAD)
    state.calibrate("main/one", "m", Sample(1000, 4000, 50))
    state.calibrate("main/one", None, Sample(10, 40, 0))
    state.keep_tail("resp_1", Tail("main/one", "f"))
    return state


def test_a_state_is_the_same_after_a_restart(layout: Layout) -> None:
    state = filled()
    trimstate.write(layout, "s", state.encoded())
    assert msgspec.structs.asdict(trimstate.read(layout, "s")) == msgspec.structs.asdict(state)
    assert stat.S_IMODE(layout.trim("s").stat().st_mode) == 0o600
    assert [path.name for path in layout.sessions.iterdir()] == ["s.trim.json"]


@settings(max_examples=200)
@given(
    st.builds(View, note=st.text(st.characters(exclude_categories=["Cs"])), cut=st.one_of(st.none(), st.integers(0, 9)))
)
def test_any_view_is_the_same_after_a_restart(view: View) -> None:
    state = TrimState(threads={"main/x": Thread(base=view, views=(view,))})
    assert msgspec.json.decode(state.encoded(), type=TrimState).threads == state.threads


def test_a_session_without_a_file_begins_anew(layout: Layout) -> None:
    assert trimstate.read(layout, "none").threads == {}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"threads":[]}',
        b'{"threads":{"a":{"base":{"cut":"x"}}}}',
        b"\xff",
        b'{"version":2}',
    ],
)
def test_a_file_that_is_none_of_ours_is_a_value_error_and_is_set_aside_whole(layout: Layout, content: bytes) -> None:
    layout.trim("s").write_bytes(content)
    with pytest.raises(ValueError):  # noqa: PT011  # every kind of it is handled alike
        trimstate.read(layout, "s")
    trimstate.set_aside(layout, "s")
    assert not layout.trim("s").exists()
    assert layout.trim("s").with_name("s.trim.json.unreadable").read_bytes() == content


def test_a_file_that_cannot_be_read_is_an_os_error(layout: Layout) -> None:
    layout.trim("s").mkdir()
    with pytest.raises(OSError, match=r"s\.trim\.json"):
        trimstate.read(layout, "s")


@given(st.integers(0, 2**32))
def test_a_damaged_file_is_read_or_refused_and_raises_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    layout = Layout(tmp_path_factory.mktemp("state"))
    layout.prepare()
    chance = random.Random(seed)
    content = bytearray(filled().encoded())
    for _ in range(chance.randrange(1, 4)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    layout.trim("s").write_bytes(bytes(content))
    with contextlib.suppress(ValueError):
        trimstate.read(layout, "s")


def test_a_failed_write_leaves_the_old_state_and_nothing_else(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    trimstate.write(layout, "s", b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        trimstate.write(layout, "s", b"new")
    assert [(path.name, path.read_bytes()) for path in layout.sessions.iterdir()] == [("s.trim.json", b"old")]


def test_a_fault_takes_a_publication_back() -> None:
    state = filled()
    before = json.loads(state.encoded())
    newer = msgspec.structs.replace(THREAD, owned=9)
    state.publish("main/one", newer)
    state.restore("main/one", THREAD, {"main": "main/one"})
    assert json.loads(state.encoded()) == before
    state.publish("main/two", newer)
    state.restore("main/two", None, {"main": "main/one"})
    assert json.loads(state.encoded()) == before


def test_a_thread_is_found_in_its_own_lane_before_any_other() -> None:
    state = TrimState()
    for key in ("sub/root", "main/root", "other/root"):
        state.publish(key, THREAD)
    assert state.find("main", "root") == "main/root"
    assert state.find("new", "root") == "other/root"
    assert state.find("main", "nothing") is None


def test_only_the_threads_used_last_are_remembered() -> None:
    state = TrimState()
    state.calibrate("main/0", "m", Sample(1, 1, 0))
    for number in range(trimstate.MOST_THREADS):
        state.publish(f"main/{number}", THREAD)
    state.publish("main/1", THREAD)
    state.publish("main/new", THREAD)
    assert len(state.threads) == trimstate.MOST_THREADS
    assert "main/0" not in state.threads
    assert "main/0" not in state.samples
    assert {"main/1", "main/new"} <= state.threads.keys()
    assert state.latest == {"main": "main/new"}


def test_samples_are_kept_by_thread_and_model() -> None:
    state = filled()
    assert state.sample("main/one", "m") == Sample(1000, 4000, 50)
    assert state.sample("main/one", None) == Sample(10, 40, 0)
    assert state.sample("main/one", "other") is None
    assert state.sample("main/two", "m") is None


def test_only_the_newest_kept_responses_are_remembered() -> None:
    state = TrimState()
    for number in range(trimstate.MOST_TAILS + 3):
        state.keep_tail(f"resp_{number}", Tail("main/one", "f"))
    assert len(state.tails) == trimstate.MOST_TAILS
    assert "resp_2" not in state.tails


def test_changed_threads_of_other_sessions_are_found_newest_first_and_read_again_when_they_change(
    layout: Layout,
) -> None:
    elsewhere = trimstate.Elsewhere(layout)
    unchanged = Thread(base=View())
    for number, sid in enumerate(("old", "new", "own")):
        state = TrimState(threads={"main/a": THREAD, "main/b": unchanged})
        trimstate.write(layout, sid, state.encoded())
        os.utime(layout.trim(sid), ns=(number * 10**9, number * 10**9))
    layout.trim("broken").write_bytes(b"{")
    layout.registration("new").write_bytes(b"{}")
    assert elsewhere.threads(besides="own") == [("new", "main/a", THREAD), ("old", "main/a", THREAD)]
    trimstate.write(layout, "old", TrimState().encoded())
    layout.trim("own").unlink()
    assert elsewhere.threads(besides="own") == [("new", "main/a", THREAD)]
