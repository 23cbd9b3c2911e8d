"""Own `off` and `on`: a person's word that running proxies follow from their next request."""

import sys
from collections.abc import Sequence

import msgspec
from openmem_store import retention, sid
from openmem_store.layout import Layout

from openmem_addon import switch
from openmem_addon.commands import overflow, preferences, subject
from openmem_addon.switch import Switch

HELP = """\
usage: ./run.sh off [SESSION ...] [--raw [--yes]]
       ./run.sh on [SESSION ...]

off: from the next request on, nothing new is removed, compressed or explained, in these sessions or in all. What was
removed before stays removed: the full history may no longer fit the model.
--raw also sends that history as the agent has it, and stores nothing meanwhile; it first lists the sessions that would
be too large, and asks, unless --yes is given.
The first characters of an id are enough."""


class Words(msgspec.Struct, frozen=True):
    """What was asked for."""

    sessions: tuple[str | None, ...]
    """Sanitised ids, whole or their first characters; one None for all sessions."""
    switch: Switch
    sure: bool = False


def main(name: str, words: Sequence[str]) -> int:
    """Turn a switch. Returns 1 when one asked for was not, 2 for words that are none of ours."""
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    try:
        given = parse(name, words)
        settings = preferences.load()
    except ValueError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 2
    layout = Layout(settings.root)
    # One that a hook has registered can be switched off before its first request is stored.
    found, complaints = subject.wholes(filter(None, given.sessions), retention.stored(layout))
    for line in complaints:
        print(f"openmem-context: {line}", file=sys.stderr)
    sessions = (None,) if None in given.sessions else tuple(dict.fromkeys(found.values()))
    if given.switch == "raw":
        large = overflow.overflowing(layout, chars_per_token=settings.chars_per_token)
        chosen = [each for each in large if None in sessions or each.sid in sessions]
        if chosen:
            print("These sessions will be refused by their model, sent whole:")
            print("\n".join(f"  {each}" for each in chosen))
            if not given.sure and not _agreed():
                print("openmem-context: nothing was changed", file=sys.stderr)
                return 1
    try:
        changed = [session for session in sessions if switch.turn(layout, session, given.switch)]
    except OSError as error:
        print(f"openmem-context: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    for session in sessions:
        stored = session is None or layout.database(session).is_file()
        print(said(session, given.switch, changed=session in changed, stored=stored))
    if name == "on" and None not in sessions and layout.off(None).exists():
        print("All sessions are still off: ./run.sh on turns them on.")
    return 1 if complaints else 0


def parse(name: str, words: Sequence[str]) -> Words:
    """Return what the words ask for. Raises ValueError for an option or an id that cannot be one."""
    options = {word for word in words if word.startswith("-")}
    allowed = {"--raw", "--yes"} if name == "off" else set()
    if unknown := options - allowed:
        raise ValueError(f"{name} takes no {min(unknown)}\n{HELP}")
    if options == {"--yes"}:
        raise ValueError("--yes answers the question of --raw: give both")
    ids = tuple(dict.fromkeys(sid.checked(word) for word in words if word not in options))
    wanted: Switch = "on" if name == "on" else "raw" if "--raw" in options else "off"
    return Words(ids or (None,), wanted, "--yes" in options)


def said(session: str | None, wanted: Switch, *, changed: bool, stored: bool = True) -> str:
    """Return the line that says what holds now."""
    whose = f"session {session}" if session is not None else "all sessions"
    later = "" if stored or wanted == "on" else "; it is not stored yet: it will apply when it appears"
    return f"{wanted}: {whose}{'' if changed else ' (as before)'}{later}"


def _agreed() -> bool:
    """Ask. No answer, as from a script, is a no."""
    print("Send them whole all the same? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
