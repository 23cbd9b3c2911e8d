"""Own `status`: five lines on what runs and what is stored."""

import sys
import time
from collections.abc import Sequence

from openmem_store import version
from openmem_store.layout import Layout
from openmem_store.reader import status as stored
from openmem_store.reader.status import Summary

from openmem_addon.commands import mitm, preferences, probe
from openmem_addon.commands.probe import Health

HELP = "usage: ./run.sh status [--port N]"


def main(name: str, words: Sequence[str]) -> int:
    """Print the five lines. Returns 2 for words that are none of ours or a setting that cannot be used."""
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    try:
        port = _port(words)
        settings = preferences.load()
    except ValueError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 2
    health = probe.health(mitm.LOOPBACK, port)
    summary = stored.summary(Layout(settings.root), now=time.time())
    for line in lines(health, summary, port=port, place=preferences.readable(settings.root), own=version.code_hash()):
        print(line)
    return 0


def lines(health: Health | None, summary: Summary, *, port: int, place: str, own: str) -> list[str]:
    """Return the five lines; `own` is the code hash of this checkout."""
    damaged = f", {summary.unreadable} unreadable" if summary.unreadable else ""
    return [
        f"proxy       {_proxy(health, port=port, own=own)}",
        f"sessions    {summary.sessions:,} in {place}{damaged}",
        f"messages    {summary.messages:,} stored, {summary.in_context:,} of them in context",
        f"trims       {summary.trims:,}",
        f"fail-opens  {summary.fail_opens:,}",
    ]


def _proxy(health: Health | None, *, port: int, own: str) -> str:
    if health is None:
        return f"down: nothing of ours answers on port {port}; start it with ./run.sh"
    if health.version == own:
        return f"up on port {port}, process {health.pid}, on this code ({own})"
    return f"up on port {port}, process {health.pid}, on other code ({health.version}; here is {own}): restart it"


def _port(words: Sequence[str]) -> int:
    if not words:
        return mitm.PORT
    option, _, value = " ".join(words).replace("=", " ").partition(" ")
    if option != "--port" or not value.isdecimal() or not 0 < int(value) < 65536:
        raise ValueError(HELP)
    return int(value)
