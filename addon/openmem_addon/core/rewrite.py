"""Own the decision about one request: what the model is shown, what is stored of it, what state follows.

`decide` is the only door the shell uses; it is pure, and returns everything there is to do.
"""

from collections.abc import Mapping, Sequence
from itertools import takewhile

import msgspec
from openmem_store import events
from openmem_store.rows import Row, chain

from . import compress, lineage, texts, tokens, trim
from .model import Conversation, Item, Result
from .rendering import Rendering, absent, applied, row_flags, weight
from .view import Sample, Tail, Thread, View

REST_SHARE = 0.2
"""Share of the threshold by which a prompt must grow after a trim before the next one: a sliding
window, measured, costs four to eight times the cache writes."""


class Policy(msgspec.Struct, frozen=True):
    """What may happen to a request, settled by settings, the client's tools and the kind of request."""

    sid: str
    may_change: bool
    """New cuts, markers and instructions are allowed; what a thread's view holds already is rendered anyway."""
    force: bool
    """Trim now, whatever the size."""
    instruct: bool
    """The standing instruction is wanted."""
    require_tools: bool
    """Only an agent that can look things up is trimmed."""
    trim_tokens: int
    tail_tokens: int
    """Bound of the request up to which older steps stay behind the newest three, tokens."""
    compress_tokens: int
    """Uncalibrated tokens above which a tool result is shown compressed; 0 never."""
    chars_per_token: float
    cold_tokens: int = 0
    """Tokens from which a thread is trimmed whose cached prefix must have expired; 0 never."""
    recalled: tuple[str, ...] = ()
    """What a new cut's note holds behind the pointer, each on a line of its own; asked for once there is one."""


class Rewrite(msgspec.Struct, frozen=True):
    """All that follows from one request."""

    rendering: Rendering
    thread: Thread
    """State after this request."""
    view: View
    settled: bool
    """The view is new or grew: state must be on disk before the body leaves."""
    rows: tuple[Row, ...]
    dropped: frozenset[int]
    """Rows that this request does not show the model."""
    cut_row: int | None
    """First row of the cut turn."""
    blob_ids: Mapping[int, str]
    """Row index to blob id of the results shown compressed."""
    blobs: Mapping[str, str]
    """Blob id to full text, of the results that became compressed by this request."""
    trim: events.Trim | None
    chars: int
    """Code points forwarded."""
    media: int
    untrimmed: int = 0
    """Estimated tokens of a request that was due for a trim and whose agent cannot look; else 0."""

    @property
    def depends_on_store(self) -> bool:
        """Return whether content left the prompt by this request: it must be committed first."""
        return self.trim is not None or bool(self.blobs)

    @property
    def trimmed(self) -> int:
        """Return the `trimmed` column of this request's usage."""
        return 2 if self.trim is not None else int(self.view.cut is not None)

    @property
    def changes_body(self) -> bool:
        return self.rendering.instruct or self.view.changed()

    @property
    def root(self) -> str | None:
        """Return the fingerprint of the first row."""
        return self.rows[0].fingerprint if self.rows else None


def root(conversation: Conversation) -> str | None:
    """Return the fingerprint of the first row of a request, without computing the others."""
    first = next((item.drafts[:1] for item in conversation.items if item.stored and item.drafts), ())
    return chain(first)[0].fingerprint if first else None


def decide(
    conversation: Conversation,
    thread: Thread | None,
    policy: Policy,
    *,
    sample: Sample | None,
    now: float = 0,
    known_rows: tuple[Row, ...] = (),
) -> Rewrite:
    """Decide what becomes of a request of a known thread, or of a new one (`thread` None).

    `now` is in seconds since the epoch; `known_rows` are those of the request that `conversation` was
    read with.
    """
    items = conversation.items
    rows = _rows(conversation, known_rows)
    can_look = not policy.require_tools or conversation.offers_tools()
    known = thread or Thread(base=_first_view(conversation, policy, can_look))
    standing = known.view(items)
    shown = lineage.without_foreign(conversation, known, standing, rows)
    if policy.may_change and standing.active:
        shown = _with_first_results(items, shown, policy)
    following = known.replacing(standing, shown) if shown is not standing else known

    def measure(view: View) -> int:
        return tokens.estimate(*weight(conversation, view, policy.chars_per_token), sample, policy.chars_per_token)

    chars, media = weight(conversation, shown, policy.chars_per_token)
    before = tokens.estimate(chars, media, sample, policy.chars_per_token)
    if known.force:
        # What was refused is over the provider's window, which is then what the tail is a share of.
        share = policy.tail_tokens / policy.trim_tokens
        policy = msgspec.structs.replace(policy, tail_tokens=min(policy.tail_tokens, int(before * share)))
    forced = policy.force or known.force
    may_look = standing.active or can_look
    cold = may_look and 0 < known.warm_until < now
    due = policy.may_change and not known.paused and _due(before, standing, policy, force=forced, cold=cold)
    cut = _cut(conversation, shown, policy, measure) if due and may_look else None
    if cut is not None and cut.tokens_after >= before and not (forced or policy.recalled):
        cut = None  # the pointer would weigh more than what it stands for, and the cached prefix would be lost for it
    view = shown
    trimmed = None
    if cut is not None:
        view = cut
        following = following.trimmed_to(view)
        chars, media = weight(conversation, view, policy.chars_per_token)
        newly = _left_out(conversation, view, policy) - _left_out(conversation, shown, policy)
        trimmed = events.Trim(tokens_before=before, tokens_after=view.tokens_after, dropped=len(newly))

    if known.force and policy.may_change:
        following = msgspec.structs.replace(following, force=False)
    rendering = applied(conversation, view, policy.chars_per_token, valve=known.valve)
    flags = row_flags(conversation, view, rendering)
    return Rewrite(
        rendering=rendering,
        thread=lineage.with_sent(following, items, rows),
        view=view,
        settled=thread is None or shown is not standing or cut is not None,
        rows=rows,
        dropped=flags.dropped,
        cut_row=flags.cut,
        blob_ids=flags.blobs,
        blobs=_new_blobs(conversation, standing, view),
        trim=trimmed,
        chars=chars,
        media=media,
        untrimmed=0 if may_look or not due else before,
    )


def _rows(conversation: Conversation, known: tuple[Row, ...]) -> tuple[Row, ...]:
    """Return the rows of a conversation, of which those of the items it shares with a former one are known."""
    shared = conversation.shared if known else 0
    rows = known[: conversation.totals.rows[shared]]
    drafts = (draft for item in conversation.items[shared:] if item.stored for draft in item.drafts)
    if not rows:
        return chain(drafts)
    return rows + chain(drafts, previous=rows[-1].fingerprint, thread=rows[0].fingerprint)


def continued(conversation: Conversation, thread: Thread, tail: Tail, policy: Policy) -> Rewrite:
    """Decide about a request that sends only what is new since a response the provider keeps.

    It cannot be trimmed; the instruction, which such a request must repeat, is the thread's.
    """
    view = View(active=thread.base.active, instruct=thread.base.instruct)
    drafts = (draft for item in conversation.items if item.stored for draft in item.drafts)
    chars, media = weight(conversation, view, policy.chars_per_token)
    return Rewrite(
        rendering=applied(conversation, view, policy.chars_per_token),
        thread=thread,
        view=view,
        settled=False,
        rows=chain(drafts, previous=tail.fingerprint, thread=tail.key.rpartition("/")[2]),
        dropped=frozenset(),
        cut_row=None,
        blob_ids={},
        blobs={},
        trim=None,
        chars=chars,
        media=media,
    )


def without_request(conversation: Conversation, result: Rewrite) -> Rewrite:
    """Return what there is to store of a client's compaction: its history, not what it asks about it.

    Where no item or path asks, the last message does, behind the results it may hold. These are sent in no
    other request.
    """
    rows, last = conversation.totals.rows, conversation.items[-1:]
    stop = rows[-1]
    if not conversation.compacts and last:
        drafts = last[0].drafts if last[0].stored else ()
        results = takewhile(lambda draft: draft.kind == "tool_result", drafts)
        stop = rows[-2] + sum(1 for _ in results)
    return msgspec.structs.replace(
        result,
        rows=result.rows[:stop],
        dropped=frozenset(row for row in result.dropped if row < stop),
        blob_ids={row: blob for row, blob in result.blob_ids.items() if row < stop},
    )


def _first_view(conversation: Conversation, policy: Policy, can_look: bool) -> View:
    """Return the view a thread begins with.

    Signed reasoning in a thread we never saw was produced under another prefix than ours
    would be: the thread passes as it is until its first trim rewrites the prefix anyway.
    """
    adopted = any(item.signed for item in conversation.items)
    active = policy.may_change and can_look and not adopted
    return View(active=active, instruct=active and policy.instruct)


def _left_out(conversation: Conversation, view: View, policy: Policy) -> frozenset[int]:
    return absent(conversation, applied(conversation, view, policy.chars_per_token))


def _due(estimate: int, view: View, policy: Policy, *, force: bool, cold: bool) -> bool:
    """Return whether to trim now. A cold thread's prefix is written anew anyway, which lowers its threshold."""
    if force:
        return True
    rested = view.tokens_after + REST_SHARE * policy.trim_tokens if view.cut is not None else 0
    least = policy.cold_tokens if cold and policy.cold_tokens else policy.trim_tokens
    return estimate >= max(least, rested)


def _cut(conversation: Conversation, shown: View, policy: Policy, measure: trim.Measure) -> View | None:
    """Return the view after a trim, complete, or None where nothing would drop."""
    items = conversation.items

    def complete(outline: View) -> View:
        return msgspec.structs.replace(
            outline,
            active=True,
            instruct=policy.instruct or shown.instruct,
            compressed=shown.compressed | dict.fromkeys(_long_results(conversation, outline, policy), 0),
            note=shown.note if outline.cut == shown.cut else _note(policy, trim.missing(outline)),
        )

    outline = trim.plan(
        items,
        shown,
        tail_tokens=policy.tail_tokens,
        manual_reasoning=conversation.manual_reasoning,
        measure=lambda candidate: measure(complete(candidate)),
    )
    if outline is None:
        return None
    view = complete(outline)
    if outline.cut != shown.cut:
        missing = len(_left_out(conversation, view, policy))
        view = msgspec.structs.replace(view, note=_note(policy, missing))
    return msgspec.structs.replace(view, tokens_after=measure(view))


def _note(policy: Policy, missing: int) -> str:
    """Return the note of a new cut; a trim that only moves the gap keeps the one there is."""
    return "\n".join((texts.pointer(policy.sid, missing), *policy.recalled))


def new_cut(result: Rewrite, thread: Thread | None, items: Sequence[Item]) -> str | None:
    """Return the user's text of the cut turn that a request's trim made anew, None where it made none."""
    standing = thread.view(items).cut if thread is not None else None
    cut = result.view.cut
    if result.trim is None or cut is None or cut == standing:
        return None
    return "\n".join(draft.text for draft in items[cut].drafts if draft.role == "user" and draft.kind == "text")


# --- compression -------------------------------------------------------------------------------------------


def _is_long(result: Result, policy: Policy) -> bool:
    return (
        bool(result.blob)
        and policy.compress_tokens > 0
        and tokens.plain(result.text, policy.chars_per_token) > policy.compress_tokens
        and compress.compressed(result, policy.chars_per_token) is not None
    )


def _long_results(conversation: Conversation, view: View, policy: Policy) -> list[str]:
    """Return the blob ids of the long results that a view keeps."""
    return [
        result.blob
        for index in conversation.totals.heavy
        if not view.drops(index)
        for result in conversation.items[index].results
        if _is_long(result, policy)
    ]


def _with_first_results(items: Sequence[Item], view: View, policy: Policy) -> View:
    """Return the view with the long results that cross for the first time, those after the last assistant item.

    Compressing a result later would change the prefix of everything the model said since.
    """
    added: dict[str, int] = {}
    for index in range(len(items) - 1, -1, -1):
        if items[index].kind == "assistant":
            break
        for result in items[index].results:
            if _is_long(result, policy) and result.blob not in view.compressed:
                added[result.blob] = index
    return msgspec.structs.replace(view, compressed=view.compressed | added) if added else view


def _new_blobs(conversation: Conversation, old: View, new: View) -> dict[str, str]:
    """Return blob id and text of the results that a view shows compressed and the one before it did not."""
    added = new.compressed.keys() - old.compressed.keys()
    heavy = (conversation.items[index] for index in conversation.totals.heavy) if added else ()
    return {result.blob: result.text for item in heavy for result in item.results if result.blob in added}
