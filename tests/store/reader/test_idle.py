"""Letting go of what is kept."""

import threading

from openmem_store.reader.idle import Idle


def test_what_is_not_used_again_is_let_go_of_once() -> None:
    released: list[str] = []
    idle = Idle(0.0, lambda: released.append("once"))
    idle.used()
    idle.wait()
    assert released == ["once"]
    idle.used()
    idle.wait()
    assert released == ["once", "once"]


def test_nothing_is_let_go_of_before_its_time() -> None:
    released = threading.Event()
    idle = Idle(1000.0, released.set)
    idle.used()
    idle.used()
    assert not released.is_set()


def test_nothing_used_is_nothing_to_wait_for() -> None:
    Idle(1000.0, lambda: None).wait()
