"""Print what a scripted agent gets right on long streams, and what its prompts cost, with and without the proxy.

`python -m bench.contextbench` plays the matrix. A keep arm's reward is an upper bound: a script does not lose
track in a long prompt, as a model does; only its tokens and its cost say something.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.contextbench import keyvalue, logs
from bench.contextbench.agent import SKILLS
from bench.contextbench.line import ARMS, Counts, Outcome, run
from bench.contextbench.stream import Stream

STREAMS: dict[str, Callable[[int], Stream]] = {
    **{f"R{size}": lambda seed, size=size: keyvalue.generate(size, seed=seed) for size in (1_000, 4_000, 16_000)},
    "U4000": lambda seed: keyvalue.generate(4_000, seed=seed, overwritten=0.3),
    **{f"L{size}": lambda seed, size=size: logs.generate(size, seed=seed) for size in (1_600, 6_400, 12_800)},
}

DEFAULT = ("R1000", "R4000", "L1600", "L6400")

HEADING = (
    f"{'stream':<17} {'arm':<15} {'skill':<9} {'reward':>6} {'kinds':<26} {'counts r/w/s':>12} "
    f"{'peak':>9} {'trims':>5} {'calls':>5} {'asked':>5} {'hit':>5} {'$':>6} {'s':>5}"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.contextbench", description=__doc__)
    parser.add_argument("streams", nargs="*", default=DEFAULT, help=f"of {', '.join(STREAMS)}; default {DEFAULT}")
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=ARMS)
    parser.add_argument("--skills", nargs="*", default=list(SKILLS), choices=SKILLS, help="only the log streams differ")
    parser.add_argument("--seed", type=int, default=42)
    given = parser.parse_args()
    print("prompt tokens, at 1 $ a million; counts from a tool: right / wrong but warned / silently wrong")
    print(HEADING, flush=True)
    for name in given.streams:
        stream = STREAMS[name](given.seed)
        for arm in given.arms:
            skills = given.skills if arm == "trim" and name.startswith("L") else given.skills[-1:]
            for skill in skills:
                begin = time.monotonic()
                with tempfile.TemporaryDirectory(prefix="openmem-bench-") as folder:
                    outcome = run(stream, arm, [skill], Path(folder))
                print(shown(outcome, skill, time.monotonic() - begin), flush=True)


def shown(outcome: Outcome, skill: str, seconds: float) -> str:
    """Return one line of the table."""
    kinds = " ".join(f"{kind} {share:.2f}" for kind, share in outcome.score.by_kind.items())
    found = outcome.counts.get(skill, Counts())
    counts = f"{found.right}/{found.warned}/{found.silent}"
    totals = outcome.totals
    notes = [
        *(["overflow"] if outcome.overflow else []),
        *([f"{outcome.score.stale} stale"] if outcome.score.stale else []),
        *([f"{totals.broken - outcome.trims:+} prefixes broken"] if totals.broken != outcome.trims else []),
        *([f"{len(outcome.refusals)} refusals"] if outcome.refusals else []),
        *([f"{outcome.fail_opens} fail-opens"] if outcome.fail_opens else []),
    ]
    return (
        f"{outcome.stream:<17} {outcome.arm:<15} {skill:<9} {outcome.score.reward:6.3f} {kinds:<26} "
        f"{counts:>12} {totals.peak:9,} {outcome.trims:5} {outcome.calls:5} {outcome.asked:5} {totals.hit_rate:5.3f} "
        f"{totals.dollars:6.2f} {seconds:5.0f} {', '.join(notes)}"
    ).rstrip()


if __name__ == "__main__":
    main()
