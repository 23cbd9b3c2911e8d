"""Own how two ways of doing one thing are compared: in turn, by their medians, with the bound beside the ratio."""

import statistics
import time
from collections.abc import Callable, Iterable

MILLISECONDS = 1e3


def timed(work: Callable[[], object]) -> float:
    """Return the wall time of one call, in milliseconds."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * MILLISECONDS


def in_turn(ours: Callable[[], object], floor: Callable[[], object], repeats: int) -> tuple[list[float], list[float]]:
    """Return the times of both, taken alternately so that other load on the machine meets both."""
    times: tuple[list[float], list[float]] = [], []
    for _ in range(repeats):
        times[0].append(timed(ours))
        times[1].append(timed(floor))
    return times


def cpu_in_turn(
    ours: Callable[[], object], floor: Callable[[], object], repeats: int, *, before: Callable[[], object] | None = None
) -> tuple[list[float], list[float]]:
    """Return the CPU times of both in this thread, in milliseconds, taken alternately, each first in turn.

    `before` is done before each, and not measured.
    """
    times: tuple[list[float], list[float]] = [], []
    for number in range(repeats):
        for side in (number % 2, 1 - number % 2):
            if before is not None:
                before()
            begin = time.thread_time()
            (ours, floor)[side]()
            times[side].append((time.thread_time() - begin) * MILLISECONDS)
    return times


def line(name: str, ours: Iterable[float], floor: Iterable[float], *, bound: float | None = None) -> str:
    """Return what to print of a comparison: both medians, their ratio, and whether it is within its bound."""
    one, other = statistics.median(ours), statistics.median(floor)
    ratio = one / other
    verdict = "" if bound is None else f"  bound {bound:.1f} {'met' if ratio <= bound else 'MISSED'}"
    return f"{name:<58} {one:9.2f} ms / {other:9.2f} ms = {ratio:5.2f}{verdict}"
