"""Own the decision about one request: what the model is shown, what is stored of it, what state follows.

`decide` is the only door the shell uses; it is pure, and returns everything there is to do.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from openmem_store import events
from openmem_store.rows import Row, chain

from . import compress, texts, tokens, trim
from .model import Conversation, Item, mark
from .view import Rendering, Sample, Sent, Tail, Thread, View

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
) -> Rewrite:
    """Decide what becomes of a request of a known thread, or of a new one (`thread` None)."""
    items = conversation.items
    rows = chain(draft for item in items if item.stored for draft in item.drafts)
    can_look = not policy.require_tools or conversation.offers_tools()
    known = thread or Thread(base=_first_view(conversation, policy, can_look))
    standing = known.view(items)
    shown = _without_foreign(conversation, known, standing, rows)
    if policy.may_change and standing.active:
        shown = _with_first_results(items, shown, policy)
    following = known.replacing(standing, shown) if shown is not standing else known

    def measure(view: View) -> int:
        return tokens.estimate(*_weight(conversation, view, policy), sample, policy.chars_per_token)

    before = measure(shown)
    cut = None
    if (
        policy.may_change
        and (standing.active or can_look)
        and _due(before, standing, policy, force=policy.force or known.force)
    ):
        cut = _cut(conversation, shown, policy, measure)
    view = shown
    trimmed = None
    if cut is not None:
        view = cut
        following = following.trimmed_to(view)
        newly = _absent(items, rendering_of(items, view)) - _absent(items, rendering_of(items, shown))
        trimmed = events.Trim(tokens_before=before, tokens_after=view.tokens_after, dropped=len(newly))

    if known.force and policy.may_change:
        following = msgspec.structs.replace(following, force=False)
    rendering = rendering_of(items, view, policy, valve=known.valve)
    chars, media = _weight(conversation, view, policy)
    dropped, cut_row, blob_ids = _row_flags(items, view, rendering)
    return Rewrite(
        rendering=rendering,
        thread=_sent(following, items, rows),
        view=view,
        settled=thread is None or shown is not standing or cut is not None,
        rows=rows,
        dropped=dropped,
        cut_row=cut_row,
        blob_ids=blob_ids,
        blobs=_new_blobs(items, standing, view),
        trim=trimmed,
        chars=chars,
        media=media,
    )


def continued(conversation: Conversation, thread: Thread, tail: Tail, policy: Policy) -> Rewrite:
    """Decide about a request that sends only what is new since a response the provider keeps.

    It cannot be trimmed; the instruction, which such a request must repeat, is the thread's.
    """
    view = View(active=thread.base.active, instruct=thread.base.instruct)
    drafts = (draft for item in conversation.items if item.stored for draft in item.drafts)
    chars, media = _weight(conversation, view, policy)
    return Rewrite(
        rendering=rendering_of(conversation.items, view),
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


def inherited(conversation: Conversation, root: str, candidates: Iterable[tuple[str, Thread]]) -> str | None:
    """Return the key of the thread whose view a history under a new name was produced under; None where none was.

    A fork or a resumed copy keeps the history and changes the name. All marks of a view must
    hold; a thread without any must have the same first row and the same first reply.
    """
    items = conversation.items
    reply = _first_reply(items)
    for key, thread in candidates:
        if any(view.matches(items) for view in thread.views):
            return key
        same = key.endswith(f"/{root}") and reply and thread.first_reply == reply
        if same and thread.changed() and not thread.views:
            return key
    return None


def _sent(thread: Thread, items: Sequence[Item], rows: Sequence[Row]) -> Thread:
    """Return the thread with what this request sends, and its first reply once there is one."""
    reply = thread.first_reply or _first_reply(items)
    sent = Sent(len(items), rows[-1].fingerprint) if rows else thread.sent
    return msgspec.structs.replace(thread, sent=sent, first_reply=reply)


def _first_reply(items: Sequence[Item]) -> str:
    """Return the mark of the first thing the agent said or called; empty before there is any.

    Reasoning says nothing here: marks leave it out, so that any two items of it have the same.
    """
    said = (item for item in items if item.kind == "assistant" and any(d.kind != "thinking" for d in item.drafts))
    return next(map(mark, said), "")


def _without_foreign(conversation: Conversation, thread: Thread, view: View, rows: Sequence[Row]) -> View:
    """Return the view without the signed reasoning of answers to requests we did not see.

    What we sent last ends where its count says; the reply to it follows. An assistant item
    behind anything else was produced under another prefix than the view's: the reasoning up
    to the last such item leaves, oldest first.
    """
    items, sent = conversation.items, thread.sent
    if sent is None or not thread.changed() or _fingerprint_at(items, rows, sent.items) != sent.fingerprint:
        return view
    last = None
    passed = False
    for index in range(sent.items, len(items)):
        if items[index].kind != "assistant":
            passed = True
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


def _fingerprint_at(items: Sequence[Item], rows: Sequence[Row], count: int) -> str | None:
    """Return the fingerprint of the last row of the first `count` items; None for a shorter history."""
    stored = sum(len(item.drafts) for item in items[:count] if item.stored)
    return rows[stored - 1].fingerprint if stored and len(items) >= count else None


def _first_view(conversation: Conversation, policy: Policy, can_look: bool) -> View:
    """Return the view a thread begins with.

    Signed reasoning in a thread we never saw was produced under another prefix than ours
    would be: the thread passes as it is until its first trim rewrites the prefix anyway.
    """
    adopted = any(item.signed for item in conversation.items)
    active = policy.may_change and can_look and not adopted
    return View(active=active, instruct=active and policy.instruct)


def _due(estimate: int, view: View, policy: Policy, *, force: bool) -> bool:
    if force:
        return True
    rested = view.tokens_after + REST_SHARE * policy.trim_tokens if view.cut is not None else 0
    return estimate >= max(policy.trim_tokens, rested)


def _cut(conversation: Conversation, shown: View, policy: Policy, measure: trim.Measure) -> View | None:
    """Return the view after a trim, complete, or None where nothing would drop."""
    items = conversation.items

    def complete(outline: View) -> View:
        return msgspec.structs.replace(
            outline,
            active=True,
            instruct=policy.instruct or shown.instruct,
            compressed=shown.compressed | dict.fromkeys(_long_results(items, outline, policy), 0),
            note=shown.note if outline.cut == shown.cut else texts.pointer(policy.sid, trim.missing(outline)),
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
        view = msgspec.structs.replace(
            view, note=texts.pointer(policy.sid, len(_absent(items, rendering_of(items, view))))
        )
    return msgspec.structs.replace(view, tokens_after=measure(view))


# --- compression -------------------------------------------------------------------------------------------


def _is_long(text: str, policy: Policy) -> bool:
    return (
        policy.compress_tokens > 0
        and tokens.plain(text, policy.chars_per_token) > policy.compress_tokens
        and compress.compressed(text, policy.chars_per_token) is not None
    )


def _long_results(items: Sequence[Item], view: View, policy: Policy) -> list[str]:
    """Return the blob ids of the long results that a view keeps."""
    return [
        compress.blob_id(result.text)
        for index, item in enumerate(items)
        if item.results and not view.drops(index)
        for result in item.results
        if _is_long(result.text, policy)
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
            blob = compress.blob_id(result.text) if _is_long(result.text, policy) else None
            if blob is not None and blob not in view.compressed:
                added[blob] = index
    return msgspec.structs.replace(view, compressed=view.compressed | added) if added else view


def _shown_compressed(item: Item, index: int, view: View) -> dict[int, str]:
    """Return place to blob id of the results of an item that a view shows compressed."""
    if not item.results or not view.compressed:
        return {}
    shown: dict[int, str] = {}
    for result in item.results:
        if len(result.text) > compress.HEAD + compress.TAIL:
            blob = compress.blob_id(result.text)
            if index >= view.compressed.get(blob, index + 1):
                shown[result.place] = blob
    return shown


def _new_blobs(items: Sequence[Item], old: View, new: View) -> dict[str, str]:
    added = new.compressed.keys() - old.compressed.keys()
    if not added:
        return {}
    every = (result.text for item in items for result in item.results if len(result.text) > compress.HEAD)
    return {blob: text for text in every if (blob := compress.blob_id(text)) in added}


# --- applying a view ---------------------------------------------------------------------------------------


def rendering_of(items: Sequence[Item], view: View, policy: Policy | None = None, *, valve: bool = False) -> Rendering:
    """Return a view applied to a history. Without a policy the compressed texts are left out."""
    leaving = {index for start, stop in view.dropped for index in range(start, stop)} | set(view.moved)
    kept = [index for index in range(len(items)) if index not in leaving]
    stripped = frozenset(index for index in kept if index < view.strip and items[index].signed)
    emptied: set[int] = set()
    going: list[int] = []
    for place, index in enumerate(kept):
        if index in stripped and items[index].bare:
            if not _parts_system_from_user(items, going, kept[place + 1 :], view):
                continue
            emptied.add(index)
        going.append(index)
    compressed: dict[int, dict[int, str]] = {}
    if policy is not None and view.compressed:
        for index in going:
            shown = _shown_compressed(items[index], index, view)
            if shown:
                by_place = {result.place: result.text for result in items[index].results}
                compressed[index] = {
                    place: compress.compressed(by_place[place], policy.chars_per_token) or by_place[place]
                    for place in shown
                }
    return Rendering(
        instruct=view.instruct,
        kept=tuple(going),
        stripped=stripped & frozenset(going),
        emptied=frozenset(emptied),
        note=view.note,
        noted=view.cut,
        moved=view.moved,
        moved_after=view.moved_after,
        valve=valve,
        compressed=compressed,
    )


def _parts_system_from_user(items: Sequence[Item], before: Sequence[int], after: Sequence[int], view: View) -> bool:
    """Return whether a system message would stand before a user's, were the message between them left out."""
    last = next((index for index in reversed(before) if items[index].kind != "pinned"), None)
    following = next((items[index].kind for index in after if items[index].kind != "pinned"), "assistant")
    instructs = last is not None and (items[last].kind == "system" or last == view.moved_after)
    return instructs and following != "assistant"


def _absent(items: Sequence[Item], rendering: Rendering) -> frozenset[int]:
    """Return the wire messages a rendering leaves out."""
    return frozenset(range(len(items))) - frozenset(rendering.kept) - frozenset(rendering.moved)


def _weight(conversation: Conversation, view: View, policy: Policy) -> tuple[int, int]:
    """Return code points and media tokens of a request under a view."""
    dropped = {index for start, stop in view.dropped for index in range(start, stop)}
    chars = conversation.head_chars + len(view.note)
    media = conversation.head_media
    for index, item in enumerate(conversation.items):
        if index in dropped:
            continue
        chars += item.chars
        media += item.media
        if index < view.strip:
            chars -= item.signed_chars
        if item.results and view.compressed:
            shown = _shown_compressed(item, index, view)
            for result in item.results:
                if result.place in shown:
                    form = compress.compressed(result.text, policy.chars_per_token) or result.text
                    chars -= len(result.text) - len(form)
    return chars, media


def _row_flags(
    items: Sequence[Item], view: View, rendering: Rendering
) -> tuple[frozenset[int], int | None, dict[int, str]]:
    """Return the rows out of context, the first row of the cut turn, and the blob of each compressed row."""
    absent = _absent(items, rendering)
    dropped: set[int] = set()
    blob_ids: dict[int, str] = {}
    cut_row = None
    position = 0
    for index, item in enumerate(items):
        if not item.stored:
            continue
        if index == view.cut:
            cut_row = position
        if index in absent:
            dropped.update(range(position, position + len(item.drafts)))
        elif index in rendering.stripped:
            dropped.update(position + place for place, draft in enumerate(item.drafts) if draft.kind == "thinking")
        if index not in absent:
            shown = _shown_compressed(item, index, view)
            blob_ids.update(
                (position + result.draft, shown[result.place]) for result in item.results if result.place in shown
            )
        position += len(item.drafts)
    return frozenset(dropped), cut_row, blob_ids
