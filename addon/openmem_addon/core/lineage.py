"""Own what a history says of where it comes from: which thread it goes on with, and which answers it got elsewhere.

A client may fork a session, go on under another name, or send a request that does not pass us.
"""

from collections.abc import Iterable, Sequence

import msgspec
from openmem_store.rows import Row, chain

from . import trim
from .model import USER_KINDS, Conversation, Item, mark
from .view import Sent, Thread, View


def inherited(conversation: Conversation, root: str, candidates: Iterable[tuple[str, Thread]]) -> str | None:
    """Return the key of the thread whose view a history under a new name was produced under; None where none was.

    A fork or a resumed copy keeps the history and changes the name. All marks of a view must
    hold; else, for a fork from before the first cut, the first row and the first reply; else, of a
    thread whose first reply we have not seen come back, all that was sent for it. The last may be a
    namesake that began with the same words: its reasoning is refused then, and cured.
    """
    items = conversation.items
    reply = _first_reply(items)
    same = begun = None
    for key, thread in candidates:
        if any(view.matches(items) for view in thread.views):
            return key
        if not key.endswith(f"/{root}") or not thread.changed():
            continue
        if same is None and reply and thread.first_reply == reply:
            same = key
        if begun is None and not thread.first_reply and _answers(items, thread.sent):
            begun = key
    return same or begun


def _answers(items: Sequence[Item], sent: Sent | None) -> bool:
    """Return whether a history is what was sent and the reply to it."""
    if sent is None or len(items) <= sent.items or items[sent.items].kind != "assistant":
        return False
    rows = chain(draft for item in items[: sent.items] if item.stored for draft in item.drafts)
    return bool(rows) and rows[-1].fingerprint == sent.fingerprint


def with_sent(thread: Thread, items: Sequence[Item], rows: Sequence[Row]) -> Thread:
    """Return the thread with what this request sends, and the first reply of the branch it is on."""
    reply = _first_reply(items) or thread.first_reply
    sent = Sent(len(items), rows[-1].fingerprint) if rows else thread.sent
    return msgspec.structs.replace(thread, sent=sent, first_reply=reply)


def _first_reply(items: Sequence[Item]) -> str:
    """Return the mark of the first thing the agent said or called; empty before there is any.

    Reasoning says nothing here: marks leave it out, so that any two items of it have the same.
    """
    said = (item for item in items if item.kind == "assistant" and any(d.kind != "thinking" for d in item.drafts))
    return next(map(mark, said), "")


def without_foreign(conversation: Conversation, thread: Thread, view: View, rows: Sequence[Row]) -> View:
    """Return the view without the signed reasoning of answers to requests we did not see.

    What we sent last ends where its count says; the reply to it follows. An assistant item
    behind anything else was produced under another prefix than the view's: the reasoning up
    to the last such item leaves, oldest first.
    """
    items, sent = conversation.items, thread.sent
    if sent is None or not thread.changed() or _fingerprint_at(conversation, rows, sent.items) != sent.fingerprint:
        return view
    last = None
    passed = False
    for index in range(sent.items, len(items)):
        if items[index].kind != "assistant":
            passed = passed or _is_asked(items[index])
        elif passed:
            last = index
    if last is None:
        return view
    strip = last + 1
    if conversation.manual_reasoning:
        strip = min(strip, trim.trailing_run(items))
    if not any(item.signed for item in items[view.strip : strip]):
        return view
    return msgspec.structs.replace(view, strip=strip)


def _is_asked(item: Item) -> bool:
    """Return whether an item came from the client's side, so that what the model said behind it was another answer.

    An answer may itself hold items of no speaker: a server's list of its tools, or a type we do not know.
    """
    return item.kind in USER_KINDS or item.kind == "system" or (item.kind == "pinned" and bool(item.drafts))


def _fingerprint_at(conversation: Conversation, rows: Sequence[Row], count: int) -> str | None:
    """Return the fingerprint of the last row of the first `count` items; None for a shorter history."""
    if len(conversation.items) < count or not conversation.totals.rows[count]:
        return None
    return rows[conversation.totals.rows[count] - 1].fingerprint
