"""Own `status`: five lines on what runs and what is stored, and a line for each of the newest sessions."""

import sys
import time
from collections.abc import Callable, Sequence

import msgspec
from openmem_store import version
from openmem_store.layout import Layout
from openmem_store.reader import status as stored
from openmem_store.reader.status import Summary
from openmem_store.settings import Settings

from openmem_addon import switch
from openmem_addon.commands import mitm, overview, preferences, pricing, probe, report, terminal
from openmem_addon.commands.probe import Holder
from openmem_addon.commands.report import Report
from openmem_addon.commands.savings import Savings
from openmem_addon.commands.terminal import Line, Page
from openmem_addon.switch import Switch

HELP = """\
usage: ./run.sh status [--port N] [--watch | --json]

  --watch  show it anew every two seconds, until Ctrl-C
  --json   all of it, and every session, for a program to read"""

EVERY_S = 2.0

COLUMN = 12
"""Characters of what each of the five lines is called."""

SWITCHED: dict[Switch, str] = {
    "on": "",
    "off": "; switched off for all sessions (./run.sh on)",
    "raw": "; raw: everything is sent whole and nothing is stored (./run.sh on)",
}
"""What the first line says of the switch for all."""

MOST = stored.MOST_SESSIONS
"""Sessions that get a line."""


class Words(msgspec.Struct, frozen=True):
    """What was asked for."""

    port: int = mitm.PORT
    watch: bool = False
    json: bool = False


def main(name: str, words: Sequence[str], *, wait: Callable[[float], None] = time.sleep) -> int:
    """Print what there is. Returns 2 for words that are none of ours or a setting that cannot be used."""
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    try:
        given = parse(words)
        settings = preferences.load()
    except ValueError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(document(settings, given.port))
        return 0
    if not given.watch:
        terminal.put(page(settings, given.port))
        return 0
    with terminal.screen() as screen:
        try:
            while True:
                screen.show(page(settings, given.port))
                wait(EVERY_S)
        except KeyboardInterrupt:
            return 0


def parse(words: Sequence[str]) -> Words:
    """Return what the words ask for. Raises ValueError with the usage."""
    parts = [part for word in words for part in (word.split("=", 1) if word.startswith("--port=") else [word])]
    flags = {word for word in parts if word in ("--watch", "--json")}
    rest = [word for word in parts if word not in flags]
    if len(flags) > 1 or (rest and (len(rest) != 2 or rest[0] != "--port")):
        raise ValueError(HELP)
    port = rest[1] if rest else str(mitm.PORT)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(HELP)
    return Words(int(port), "--watch" in flags, "--json" in flags)


def page(settings: Settings, port: int) -> Page:
    """Return the five lines, and the newest sessions where there are any."""
    layout = Layout(settings.root)
    holder = probe.holder(mitm.LOOPBACK, port)
    summary = stored.summary(layout, now=time.time())
    head = lines(holder, summary, port=port, place=preferences.readable(settings.root), own=version.code_hash())
    reports = report.sessions(layout, most=MOST)
    head[0] += SWITCHED[switch.read(layout, None)]
    shown: list[Line] = [((line[:COLUMN], "bold"), line[COLUMN:]) for line in head]
    if not reports:
        return shown
    more = summary.sessions - summary.unreadable - len(reports)
    rest: list[Line] = [(f"and {more:,} more: ./run.sh status --json names all",)] if more > 0 else []
    footer = overview.footer(_total(reports))
    foot: list[Line] = [("",), ((footer, "dim"),)] if footer else []
    return [*shown, ("",), overview.table(reports), *rest, *foot]


def document(settings: Settings, port: int) -> str:
    """Return everything as JSON."""
    layout = Layout(settings.root)
    reports = report.sessions(layout)
    holder = probe.holder(mitm.LOOPBACK, port)
    held = switch.read(layout, None)
    fields = {
        "port": {"number": port, "held": holder.held},
        "proxy": msgspec.to_builtins(holder.health),
        "switch": held,
        "switched_off": held != "on",
        "store": msgspec.to_builtins(stored.summary(layout, now=time.time())),
        "saved": msgspec.to_builtins(_total(reports)),
        "prices_of": pricing.AS_OF,
        "sessions": msgspec.to_builtins(reports),
    }
    return msgspec.json.format(msgspec.json.encode(fields)).decode()


def _total(reports: Sequence[Report]) -> Savings:
    return sum((each.saved for each in reports), Savings())


def lines(holder: Holder, summary: Summary, *, port: int, place: str, own: str) -> list[str]:
    """Return the five lines; `own` is the code hash of this checkout."""
    damaged = f", {summary.unreadable} unreadable" if summary.unreadable else ""
    return [
        f"proxy       {_proxy(holder, port=port, own=own)}",
        f"sessions    {summary.sessions:,} in {place}{damaged}",
        f"messages    {summary.messages:,} stored, {summary.in_context:,} of them in context",
        f"trims       {summary.trims:,}",
        f"fail-opens  {summary.fail_opens:,}",
    ]


def _proxy(holder: Holder, *, port: int, own: str) -> str:
    health = holder.health
    if health is None:
        if holder.held == "other":
            return f"down: port {port} is taken by another program"
        return f"down: nothing of ours answers on port {port}; start it with ./run.sh"
    if health.version == own:
        return f"up on port {port}, process {health.pid}, on this code ({own})"
    return f"up on port {port}, process {health.pid}, on other code ({health.version}; here is {own}): restart it"
