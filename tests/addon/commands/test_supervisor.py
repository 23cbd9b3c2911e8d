import os
import signal
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from openmem_addon.commands import probe
from openmem_addon.commands.supervisor import Plan, StartError, Supervisor, python_command

if TYPE_CHECKING:
    from tests.addon.commands.conftest import StandIn


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def supervising(plan: Plan, clock: Clock | None = None) -> Iterator[tuple[Supervisor, list[str]]]:
    said: list[str] = []
    supervisor = Supervisor(plan, report=said.append, **({"clock": clock} if clock else {}))
    try:
        yield supervisor, said
    finally:
        supervisor.stop()


def kill(pid: int) -> None:
    """End a process of ours the hard way and wait until it is gone, as the kernel tells its parent."""
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_a_proxy_is_started_and_ends_with_the_supervisor(stand_in: "StandIn") -> None:
    with supervising(stand_in.plan()) as (supervisor, said):
        supervisor.begin()
        answer = probe.health("127.0.0.1", stand_in.port)
        assert answer is not None
        assert answer.pid == supervisor.pid
    assert probe.health("127.0.0.1", stand_in.port) is None
    assert said == []


def test_a_killed_proxy_is_back_on_the_same_port(stand_in: "StandIn") -> None:
    clock = Clock()
    with supervising(stand_in.plan(), clock) as (supervisor, said):
        supervisor.begin()
        first = supervisor.pid
        assert first is not None
        clock.now = 100.0
        kill(first)
        supervisor.tick()
        assert supervisor.pid not in (None, first)
        assert probe.health("127.0.0.1", stand_in.port) is not None
    assert said == []


def test_a_tick_with_nothing_amiss_starts_nothing(stand_in: "StandIn") -> None:
    with supervising(stand_in.plan()) as (supervisor, _):
        supervisor.begin()
        supervisor.tick()
        supervisor.tick()
    assert len(stand_in.started) == 1


def test_three_failed_starts_end_with_what_the_log_says(stand_in: "StandIn") -> None:
    with supervising(stand_in.failing()) as (supervisor, _), pytest.raises(StartError) as failure:
        supervisor.begin()
    assert len(stand_in.started) == 3
    assert str(failure.value).startswith("the proxy failed to start 3 times in a row; ")
    assert str(failure.value).endswith("ends with: mitmdump: error: no such argument")


def test_a_proxy_that_keeps_dying_young_is_given_up_with_one_line(stand_in: "StandIn") -> None:
    """Each start succeeds, so that no start ever counts as failed: the clock stands still between the deaths."""
    with supervising(stand_in.plan(), Clock()) as (supervisor, said):
        supervisor.begin()
        for _ in range(5):
            if supervisor.pid is not None:
                kill(supervisor.pid)
            supervisor.tick()
    assert len(stand_in.started) == 3
    assert len(said) == 1
    assert "ended 3 times right after its start" in said[0]
    assert "the agent has no connection to its provider" in said[0]


def test_a_proxy_of_the_same_code_is_used_and_left_running(stand_in: "StandIn") -> None:
    with supervising(stand_in.plan()) as (other, _):
        other.begin()
        with supervising(stand_in.plan()) as (supervisor, _):
            supervisor.begin()
            assert supervisor.pid is None
        assert probe.health("127.0.0.1", stand_in.port) is not None
    assert len(stand_in.started) == 1


def test_a_shared_proxy_that_ends_is_taken_over_on_its_port(stand_in: "StandIn") -> None:
    with supervising(stand_in.plan()) as (supervisor, said):
        with supervising(stand_in.plan()) as (other, _):
            other.begin()
            supervisor.begin()
            supervisor.tick()
        supervisor.tick()
        assert supervisor.pid == stand_in.started[-1]
        assert probe.health("127.0.0.1", stand_in.port) is not None
    assert len(stand_in.started) == 2
    assert said == []


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"version": "ffffffffffff"}, "a proxy of other code"),
        ({"root": "/elsewhere"}, "a proxy that stores in /elsewhere"),
    ],
)
def test_a_proxy_of_other_code_or_another_store_is_not_used(
    stand_in: "StandIn", other: dict[str, str], line: str
) -> None:
    with supervising(stand_in.plan(**other)) as (running, _):
        running.begin()
        with supervising(stand_in.plan()) as (supervisor, _), pytest.raises(StartError, match=line):
            supervisor.begin()


def test_a_port_in_foreign_hands_is_named(stand_in: "StandIn") -> None:
    with (
        socket.create_server(("127.0.0.1", stand_in.port)),
        supervising(stand_in.plan(shared=False)) as (supervisor, _),
    ):
        line = f"port {stand_in.port} is taken by another program: choose one with --port"
        with pytest.raises(StartError, match=line):
            supervisor.begin()
    assert stand_in.started == []


def test_nothing_is_started_once_the_agent_is_gone(stand_in: "StandIn") -> None:
    supervisor = Supervisor(stand_in.plan(), report=lambda _: None, wanted=lambda: False)
    supervisor.begin()
    supervisor.stop()
    assert stand_in.started == []


def test_the_log_is_the_owners_alone_and_does_not_grow_for_ever(stand_in: "StandIn") -> None:
    plan = stand_in.failing()
    for _ in range(2):
        with supervising(plan) as (supervisor, _), pytest.raises(StartError):
            supervisor.begin()
    assert stat.S_IMODE(plan.log.stat().st_mode) == 0o600
    assert len(plan.log.read_text().splitlines()) == 6
    plan.log.write_bytes(b"x" * (1 << 20) + b"x")
    with supervising(plan) as (supervisor, _), pytest.raises(StartError):
        supervisor.begin()
    assert plan.log.stat().st_size < 1000


def test_a_proxy_keeps_out_of_the_terminals_process_group(stand_in: "StandIn") -> None:
    """Ctrl-C is for the agent: it must not reach the proxy."""
    with supervising(stand_in.plan()) as (supervisor, _):
        supervisor.begin()
        assert supervisor.pid is not None
        assert os.getpgid(supervisor.pid) != os.getpgrp()


def test_the_command_keeps_the_current_folder_off_the_module_path() -> None:
    command = python_command("python3", ["--listen-port", "9"])
    assert command == ("python3", "-P", "-m", "openmem_addon.commands.child", "--listen-port", "9")
