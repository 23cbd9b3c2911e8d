"""Own what became of a request, told from its two bodies alone: which messages left, which changed, and how.

It knows nothing of what was planned, so that it also shows what was not meant.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from openmem_store.rows import Draft

from . import texts
from .model import Conversation, Item, ItemKind, mark

WORDS: dict[ItemKind, str] = {
    "turn": "user turn",
    "wrapper": "reminder",
    "results": "tool result",
    "assistant": "assistant message",
    "system": "system message",
    "pinned": "head message",
    "other": "other item",
}
"""What a person calls one of each kind."""

_ITEMS = ("messages", "input")
"""Members whose messages are compared one by one."""

_SYSTEM = ("system", "instructions")
"""Members that take the standing instruction; on Chat it is a message."""


class Pair(msgspec.Struct, frozen=True):
    """One message, as it came and as it went out."""

    came: int | None
    """Index among what the client sent; None for a message that was added."""
    went: int | None
    """Index among what was forwarded; None for one that left."""


def describe(came: Conversation, went: Conversation) -> list[str]:
    """Return what a person reads: how much went out, what changed around the messages, and each message's fate."""
    head = [
        f"messages: {len(went.items):,} of {len(came.items):,} forwarded",
        f"bytes: {len(went.body):,} of {len(came.body):,} forwarded",
        *_members(came, went),
    ]
    return [*head, "", *_fates(came.items, went.items)]


def pairs(came: Sequence[Item], went: Sequence[Item]) -> list[Pair]:
    """Return every message once, in order, the kept ones with their place on both sides.

    What a trim keeps stands at the end, so the search goes backwards: of several equal messages
    the newest is taken for the one that stayed.
    """
    found: list[Pair] = []
    top = len(came)
    for index in range(len(went) - 1, -1, -1):
        place = _place(came[:top], went[index])
        if place is None:
            found.append(Pair(None, index))
            continue
        found.extend(Pair(at, None) for at in range(top - 1, place, -1))
        found.append(Pair(place, index))
        top = place
    found.extend(Pair(at, None) for at in range(top - 1, -1, -1))
    return found[::-1]


def _place(came: Sequence[Item], went: Item) -> int | None:
    """Return which message this one is: the newest equal one, else the newest that it may have been made of."""
    backwards = range(len(came) - 1, -1, -1)
    equal = next((at for at in backwards if came[at].source == went.source), None)
    if equal is not None:
        return equal
    # The parts of a system message that was moved stand behind what it once stood before: only the nearest may be it.
    return next((at for at in backwards[: 1 if went.kind == "system" else None] if _became(came[at], went)), None)


def _became(came: Item, went: Item) -> bool:
    if came.bare and went.kind == "assistant" and [draft.text for draft in went.drafts] == [texts.NO_TEXT]:
        return True
    if came.kind == "assistant" or came.answers:
        return mark(came) == mark(went)
    return bool(came.drafts) and _ends_alike(came.drafts, went.drafts)


def _ends_alike(came: Sequence[Draft], went: Sequence[Draft]) -> bool:
    """Return whether a message is another one with something before it: that is how a note is put in."""
    if not 0 < len(came) <= len(went):
        return False
    together = zip(came, went[-len(came) :], strict=True)
    return all(old.role == new.role and old.text and new.text.endswith(old.text) for old, new in together)


def _members(came: Conversation, went: Conversation) -> Iterator[str]:
    """Yield a line for each member of the body beside the messages that is not what it was."""
    for name in dict.fromkeys((*came.places, *went.places)):
        if name in _ITEMS:
            continue
        before, after = _value(came, name), _value(went, name)
        if before == after:
            continue
        if name in _SYSTEM and went.instructed and not came.instructed:
            yield f"{name}: the standing instruction was added"
        else:
            yield f"{name}: {'added' if before is None else 'removed' if after is None else 'changed'}"


def _value(conversation: Conversation, name: str) -> bytes | None:
    place = conversation.places.get(name)
    return conversation.body[place[0] : place[1]] if place else None


def _fates(came: Sequence[Item], went: Sequence[Item]) -> Iterator[str]:
    """Yield a line for each run of messages with one fate, and what was done to each changed one."""
    run: list[int] = []
    fate = ""
    for pair in (*pairs(came, went), None):
        new = _fate(pair, came, went) if pair else ""
        if run and new != fate:
            yield _run(run, fate, came)
            run = []
        fate = new
        if pair is None:
            return
        if pair.came is not None and fate:
            run.append(pair.came)
        elif pair.went is not None:
            yield from _change(came[pair.came] if pair.came is not None else None, went[pair.went], pair.came)


def _fate(pair: Pair, came: Sequence[Item], went: Sequence[Item]) -> str:
    """Return what is said once for a run of messages; empty for a message that is shown by itself."""
    if pair.went is None:
        return "removed"
    if pair.came is not None and came[pair.came].source == went[pair.went].source:
        return "as they came"
    return ""


def _run(run: Sequence[int], fate: str, came: Sequence[Item]) -> str:
    first, last = run[0] + 1, run[-1] + 1
    where = f"{first}" if first == last else f"{first}-{last}"
    if fate != "removed":
        return f"{where}: {'as it came' if first == last else fate}"
    counts = Counter(WORDS[came[index].kind] for index in run)
    what = ", ".join(f"{count:,} {word}{'' if count == 1 else 's'}" for word, count in counts.items())
    return f"{where}: removed, {what}"


def _change(came: Item | None, went: Item, place: int | None) -> Iterator[str]:
    """Yield what was done to one message, the text that was put in under it."""
    if came is None:
        yield f"added: {WORDS[went.kind]}"
        yield from _indented(draft.text for draft in went.drafts)
        return
    done = list(_shortened(came, went))
    if came.signed and not went.signed:
        done.insert(0, "its reasoning removed")
    added = list(_added(came.drafts, went.drafts))
    if added:
        done.append("text put before it" if went.kind != "assistant" else "a placeholder put in")
    yield f"{(place or 0) + 1}: {WORDS[came.kind]}, {'; '.join(done) or 'written in another form'}"
    yield from _indented(added)


def _shortened(came: Item, went: Item) -> Iterator[str]:
    before = [draft for draft in came.drafts if draft.kind == "tool_result"]
    after = [draft for draft in went.drafts if draft.kind == "tool_result"]
    for old, new in zip(before, after, strict=False):
        if old.text != new.text:
            name = f"of {old.name} " if old.name else ""
            yield f"result {name}shortened from {len(old.text):,} to {len(new.text):,} characters"


def _added(came: Sequence[Draft], went: Sequence[Draft]) -> Iterator[str]:
    """Yield the texts that only the forwarded message has."""
    known = Counter(draft.text for draft in came)
    for draft in went:
        if known[draft.text]:
            known[draft.text] -= 1
        elif draft.kind == "text":
            old = next((each.text for each in came if each.text and draft.text.endswith(each.text)), "")
            yield draft.text.removesuffix(old).rstrip("\n")


def _indented(added: Iterable[str]) -> Iterator[str]:
    for text in added:
        for line in text.splitlines():
            yield f"    | {line}"
