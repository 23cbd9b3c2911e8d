"""Own `estimate`: past sessions replayed with and without trimming, so that a person can decide before installing."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from openmem_store.parsers import TOKENS
from openmem_store.settings import Settings

from openmem_addon.commands import imports, preferences, pricing, replay, terminal
from openmem_addon.commands.history import History
from openmem_addon.commands.replay import Outcome
from openmem_addon.commands.terminal import Page, Progress, Table
from openmem_addon.core.rewrite import Policy
from openmem_addon.core.source import NotSplicable

HELP = """\
usage: ./run.sh estimate [--at TOKENS ...] [FILE or FOLDER ...]

Replays sessions that Claude Code and Codex have kept, as they were and trimmed at these thresholds, and prints tokens,
broken prefixes and modelled cost. Without --at it takes the threshold of the settings, without a file every session.
Nothing is stored and nothing is sent."""


class Words(msgspec.Struct, frozen=True):
    """What was asked for."""

    thresholds: tuple[int, ...]
    """Tokens; empty for those of the settings."""
    files: tuple[str, ...]


def main(name: str, words: Sequence[str]) -> int:
    """Print the table. Returns 1 where no session could be replayed, 2 for words that are none of ours."""
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    try:
        asked = parse(words)
        settings = preferences.load()
        home = Path(os.environ.get("HOME") or Path.home())
        found = imports.given(asked.files) if asked.files else imports.everything(home, os.environ)
    except ValueError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 2
    columns = thresholds(settings, asked.thresholds)
    totals: dict[str, Outcome] = {title: Outcome() for title in columns}
    sessions = 0
    with Progress("files", len(found)) as progress:
        for path, source in found:
            try:
                for history in source.histories(path):
                    for title, threshold in columns.items():
                        totals[title].add(one(history, settings, threshold))
                    sessions += 1
            except (OSError, ValueError, NotSplicable) as error:
                progress.say(f"openmem-context: {preferences.readable(path)} was left out: {error}")
            progress.advance()
    if not sessions:
        print("openmem-context: there is no session to replay", file=sys.stderr)
        return 1
    terminal.put(page(sessions, totals))
    return 0


def parse(words: Sequence[str]) -> Words:
    """Return what the words ask for. Raises ValueError that names the word and the fix."""
    chosen: list[int] = []
    files: list[str] = []
    rest = iter([part for word in words for part in (word.split("=", 1) if word.startswith("--at=") else [word])])
    for word in rest:
        if word == "--at":
            try:
                chosen.append(int(str(TOKENS(next(rest, "")))))
            except ValueError as error:
                raise ValueError(f"--at {error}") from None
        elif word.startswith("-"):
            raise ValueError(f"estimate takes no {word}\n{HELP}")
        else:
            files.append(word)
    return Words(tuple(dict.fromkeys(chosen)), tuple(files))


Threshold = Callable[[str | None], int | None]
"""Takes a model, returns its threshold in tokens; None never trims."""


def thresholds(settings: Settings, chosen: Sequence[int]) -> dict[str, Threshold]:
    """Return the ways to replay a session, by title."""
    ways: dict[str, Threshold] = {"as it was": lambda model: None}
    for tokens in chosen:
        ways[f"at {tokens:,}"] = lambda model, fixed=tokens: fixed
    if not chosen:
        ways["as set"] = settings.threshold
    return ways


def one(history: History, settings: Settings, threshold: Threshold) -> Outcome:
    """Replay one session in one way. Raises NotSplicable for a body that does not read."""
    tokens = threshold(history.requests[0].model)
    policy = Policy(
        sid="estimate",
        may_change=tokens is not None,
        force=False,
        instruct=settings.standing_instruction,
        require_tools=False,  # as if the search tools had been registered
        trim_tokens=tokens or 1,
        tail_tokens=int((tokens or 1) * settings.trim_to_fraction),
        compress_tokens=settings.compress_tokens,
        chars_per_token=settings.chars_per_token,
    )
    return replay.replay(history, policy, ratio=replay.ratio(history, usual=settings.chars_per_token))


def page(sessions: int, totals: dict[str, Outcome]) -> Page:
    """Return what a person reads."""
    heading = ("", "requests", "prompt tokens", "largest", "broken prefixes", "trims", "cost")
    rows: list[tuple[str, ...]] = []
    for title, each in totals.items():
        counts = (each.requests, each.prompt, each.largest, each.breaks, each.trims)
        rows.append((title, *(f"{count:,}" for count in counts), f"${each.dollars:,.2f}"))
    unpriced = sorted(set().union(*(each.unpriced for each in totals.values())))
    lines = [
        f"cost: prices of {pricing.AS_OF}, a cache that never expires, what a trim moves written anew; the searches",
        "with which an agent looks things up again are not in it.",
    ]
    if unpriced:
        lines.append(f"No price is known for {', '.join(unpriced)}: their requests count no cost.")
    figures = Table(heading, tuple(rows), right=frozenset(range(1, len(heading))))
    return [
        (f"{sessions:,} session{'' if sessions == 1 else 's'}",),
        ("",),
        figures,
        ("",),
        *((line,) for line in lines),
    ]
