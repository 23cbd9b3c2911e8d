"""Processor time that an agent's hook takes to start, as a ratio to an empty program: it runs at every prompt."""

import resource
import subprocess
import sys

RUNS = 15


def least(code: str) -> float:
    """Return the least processor time of several runs, milliseconds: load only ever adds to it."""
    spent: list[float] = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return min(spent)


def main() -> None:
    empty, hook = least("pass"), least("import openmem_addon.commands.hooks")
    print(f"empty {empty:.1f} ms   hook {hook:.1f} ms = {hook / empty:.2f}")


if __name__ == "__main__":
    main()
