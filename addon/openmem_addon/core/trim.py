"""Own the plan of a trim: which items of a history leave, and where the pointer stands. Knows no provider.

    kept     first real user turn · reply before the cut · cut turn with the pointer · newest steps
    dropped  everything else before the cut · the in-turn gap: oldest steps of the cut turn's own loop

A group is a real user turn or a step (one tool exchange) with everything up to the next; it
stays or leaves whole, so that no tool call loses its result.
"""

from collections.abc import Callable, Iterable, Sequence

from .model import USER_KINDS, Item, is_search_tool, mark
from .view import Range, View

TAIL_STEPS = 3
"""Newest steps of the cut turn that every trim keeps: what the agent is doing right now."""

Measure = Callable[[View], int]
"""Estimated prompt tokens of the request under a view."""


def plan(
    items: Sequence[Item], view: View, *, tail_tokens: int, manual_reasoning: bool, measure: Measure
) -> View | None:
    """Return the outline of the next view, or None where nothing would drop.

    The cut is the last real user turn after the previous one that drops something and parts
    no tool call from its result; else it stays, or is the last real user turn, and only the
    gap grows. `tail_tokens` bounds the request up to which older steps stay in the tail.
    The outline has no note yet.
    """
    turns = [index for index, item in enumerate(items) if item.kind == "turn"]
    speakers = [item.kind for item in items if item.kind not in ("system", "pinned")]
    if not turns or speakers[-1] == "assistant":
        return None  # a paused or prefilled reply is continued as it stands
    after = -1 if view.cut is None else view.cut
    for turn in reversed(turns):
        if turn <= after:
            break
        outline = _outline(items, turn, None, manual_reasoning)
        if _newly_dropped(outline, view) and _pairs_whole(items, outline):
            return _with_gap(items, outline, None, tail_tokens, manual_reasoning, measure)
    cut = turns[-1] if view.cut is None else view.cut
    standing = _outline(items, cut, view.gap, manual_reasoning)
    grown = _with_gap(items, standing, view.gap, tail_tokens, manual_reasoning, measure)
    if not _newly_dropped(grown, view) or not _pairs_whole(items, grown):
        return None
    return grown


def missing(view: View) -> int:
    """Return how many wire messages a view leaves out, those it moved not counted."""
    return sum(stop - start for start, stop in view.dropped)


def _newly_dropped(new: View, old: View) -> int:
    known = _members(old.dropped)
    return sum(index not in known for index in _members(new.dropped))


def _with_gap(
    items: Sequence[Item],
    outline: View,
    gap: Range | None,
    tail_tokens: int,
    manual_reasoning: bool,
    measure: Measure,
) -> View:
    """Return the outline with its in-turn gap moved as far as the tail allows, never back."""
    cut = outline.cut
    assert cut is not None
    steps = _steps(items, cut)
    if len(steps) <= TAIL_STEPS:
        return outline
    floor = 1  # the step right after the cut turn never stays, or a trim of one long turn could drop nothing
    if gap is not None:
        floor = max(floor, sum(start < gap[1] for start in steps))
    least = max(floor, len(steps) - TAIL_STEPS)

    def candidate(first: int) -> View:
        return _outline(items, cut, (steps[0], steps[first]), manual_reasoning)

    low, high = floor, least
    while low < high:  # the longest tail under the bound: more steps are always more tokens
        middle = (low + high) // 2
        if measure(candidate(middle)) < tail_tokens:
            high = middle
        else:
            low = middle + 1
    grown = candidate(high)
    return grown if _pairs_whole(items, grown) else outline


def _steps(items: Sequence[Item], cut: int) -> list[int]:
    """Return where the steps of the cut turn's own loop begin; the loop ends at the next real user turn."""
    starts: list[int] = []
    for index in range(cut + 1, len(items)):
        if items[index].kind == "turn":
            break
        if items[index].opens_step:
            starts.append(index)
    return starts


def _outline(items: Sequence[Item], cut: int, gap: Range | None, manual_reasoning: bool) -> View:
    """Return the geometry of a view with this cut and gap."""
    outside = [*range(cut), *(range(*gap) if gap else ())]
    leaving = set(outside) - _kept(items, cut, outside)
    kept = [index for index in range(len(items)) if index not in leaving]
    moved = _misplaced(items, kept, max(cut, gap[1] if gap else 0))
    dropped = _runs(leaving)
    edges = {edge for start, stop in dropped for edge in (start, stop - 1)}
    strip = trailing_run(items, kept) if manual_reasoning else len(items)
    # A history that parts from this one before the strip ends was produced under an earlier view.
    stripped = [index for index in range(strip) if items[index].kind == "assistant"][-1:]
    return View(
        cut=cut,
        dropped=dropped,
        gap=gap,
        moved=tuple(moved),
        moved_after=_end_of_turn(items, [index for index in kept if index not in moved], cut) if moved else None,
        strip=strip,
        marks=tuple((index, mark(items[index])) for index in sorted({cut, *edges, *moved, *stripped})),
    )


def _kept(items: Sequence[Item], cut: int, outside: Sequence[int]) -> set[int]:
    """Return the items outside the kept part that every trim keeps all the same."""
    first_turn = next(index for index, item in enumerate(items) if item.kind == "turn")
    first_reply = next((index for index, item in enumerate(items) if item.kind == "assistant"), len(items))
    teaching = [index for index, item in enumerate(items) if item.kind == "system" and item.teaches]
    kept = {index for index in outside if index <= first_turn and items[index].kind in ("turn", "wrapper", "other")}
    kept |= {index for index in outside if items[index].kind == "pinned"}
    kept |= {index for index in outside if items[index].kind == "system" and index < first_reply}
    kept |= set(teaching[-1:]) & set(outside)
    reply = _reply_before(items, cut)
    if reply is not None:
        kept |= set(range(_reasoning_before(items, reply), reply + 1))
    leaving = set(outside)
    while True:  # a group that is kept for what it loads may itself use what another one loads
        shown = (item for index, item in enumerate(items) if index not in leaving or index in kept)
        used = {call.name for item in shown for call in item.calls}
        loading = {index for group in _loading_groups(items, used) for index in range(*group)} & leaving
        if loading <= kept:
            return kept
        kept |= loading


def _reply_before(items: Sequence[Item], cut: int) -> int | None:
    """Return the final reply the cut turn answers, messages of no speaker between them passed over."""
    index = cut - 1
    while index >= 0 and items[index].kind in ("system", "pinned", "wrapper", "other"):
        index -= 1
    return index if index >= 0 and items[index].kind == "assistant" and items[index].replies else None


def _reasoning_before(items: Sequence[Item], reply: int) -> int:
    """Return where the reasoning that led to a reply begins, or the reply itself where there is none.

    A provider that keeps reasoning as an item of its own refuses a reply without it. Signed
    reasoning leaves with a trim, but is no reason for one.
    """
    start = reply
    for index in range(reply - 1, -1, -1):
        if items[index].reasons:
            start = index
        elif start < reply or items[index].kind not in ("assistant", "pinned", "other"):
            break
    return start


def _loading_groups(items: Sequence[Item], used: set[str]) -> Iterable[Range]:
    """Yield the newest group that loads each deferred tool still needed: ours, or one a kept call uses."""
    loaded: dict[str, int] = {}
    for index, item in enumerate(items):
        for name in item.loads:
            if name in used or is_search_tool(name):
                loaded[name] = index
    for index in set(loaded.values()):
        start = index
        while start > 0 and not _opens_group(items[start]):
            start -= 1
        stop = index + 1
        while stop < len(items) and not _opens_group(items[stop]):
            stop += 1
        yield start, stop


def _opens_group(item: Item) -> bool:
    return item.opens_step or item.kind == "turn"


def _misplaced(items: Sequence[Item], kept: Sequence[int], bound: int) -> list[int]:
    """Return the system messages kept before `bound` whose place became one the provider refuses.

    A system message follows the user's side (or a server tool's end) and stands last or
    before an assistant message.
    """
    moved: list[int] = []
    while True:
        sequence = [index for index in kept if index not in moved]
        wrong = next(
            (
                index
                for place, index in enumerate(sequence)
                if index < bound and items[index].kind == "system" and not _well_placed(items, sequence, place)
            ),
            None,
        )
        if wrong is None:
            return moved
        moved.append(wrong)
        moved.sort()


def _well_placed(items: Sequence[Item], sequence: Sequence[int], place: int) -> bool:
    before = next((items[i] for i in reversed(sequence[:place]) if items[i].kind != "pinned"), None)
    after = next((items[i] for i in sequence[place + 1 :] if items[i].kind != "pinned"), None)
    follows = before is not None and (before.kind in USER_KINDS or before.ends_in_server_tool)
    return follows and (after is None or after.kind == "assistant")


def _end_of_turn(items: Sequence[Item], kept: Sequence[int], cut: int) -> int:
    """Return the last of the user's messages that begin at the cut turn."""
    end = cut
    for index in kept[kept.index(cut) + 1 :]:
        if items[index].kind in USER_KINDS:
            end = index
        elif items[index].kind != "pinned":
            break
    return end


def _pairs_whole(items: Sequence[Item], view: View) -> bool:
    """Return whether each result stays or leaves with its call: the last one with its id, which some use again."""
    leaving = _members(view.dropped)
    left: dict[str, bool] = {}
    for index, item in enumerate(items):
        leaves = index in leaving
        if any(left.get(answer, leaves) != leaves for answer in item.answers):
            return False
        left |= dict.fromkeys((call.id for call in item.calls), leaves)
    return True


def trailing_run(items: Sequence[Item], kept: Sequence[int] | None = None) -> int:
    """Return where the assistant run that ends at the last assistant item of a view begins.

    Of the items `kept`, not of the history: results that a view keeps next to the cut turn are a
    running loop. None takes every item.
    """
    start = len(items)
    for index in reversed(range(len(items)) if kept is None else kept):
        if items[index].kind == "assistant":
            start = index
        elif start < len(items):
            break
    return start


def _members(ranges: Iterable[Range]) -> set[int]:
    return {index for start, stop in ranges for index in range(start, stop)}


def _runs(indexes: Iterable[int]) -> tuple[Range, ...]:
    runs: list[Range] = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return tuple(runs)
