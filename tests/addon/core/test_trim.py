"""Hold the plan of a trim to the contract: what every trim keeps, where it cuts, and that groups stay whole."""

from collections.abc import Callable, Sequence

import pytest
from openmem_addon.core import anthropic, trim
from openmem_addon.core.model import Item, mark
from openmem_addon.core.view import View

from fixtures.provider.wire import Json
from tests.conversations import LATER, SEARCH, assistant, body, chat, encode, loop, result, system, thinking, use, user

WRAPPER = user("<task-notification>a task ended</task-notification>")
PLAIN = View()


def items_of(messages: Sequence[Json]) -> tuple[Item, ...]:
    return anthropic.parse(encode(body(*messages))).items


def characters(items: Sequence[Item]) -> Callable[[View], int]:
    """Return a measure that counts the code points a view keeps."""
    return lambda view: sum(item.chars for index, item in enumerate(items) if not view.drops(index))


def planned(messages: Sequence[Json], view: View = PLAIN, *, tail: int = 0, manual: bool = False) -> View | None:
    items = items_of(messages)
    return trim.plan(items, view, tail_tokens=tail, manual_reasoning=manual, measure=characters(items))


def cut(messages: Sequence[Json], view: View = PLAIN, *, tail: int = 0, manual: bool = False) -> View:
    found = planned(messages, view, tail=tail, manual=manual)
    assert found is not None
    return found


def gone(view: View) -> list[int]:
    return [index for start, stop in view.dropped for index in range(start, stop)]


def steps(*names: str, **more: object) -> list[Json]:
    """Return a tool exchange for each call id."""
    return [message for name in names for message in (assistant(use(name, **more)), user(result(name)))]


LOADING = [
    assistant(use("load", "ToolSearch")),
    user(result("load", [{"type": "tool_reference", "tool_name": SEARCH}])),
]
LOADING_LATER = [
    assistant(use("load-later", "ToolSearch")),
    user(result("load-later", [{"type": "tool_reference", "tool_name": LATER}])),
]

CUTS: dict[str, tuple[list[Json], int, list[int]]] = {
    "first turn, reply and newest turn stay": ([*chat(4), user("last")], 8, [1, 2, 3, 4, 5, 6]),
    "tool exchanges before the cut go": (
        [user("first"), *steps("a", "b"), assistant("done"), user("last")],
        6,
        [1, 2, 3, 4],
    ),
    "parallel calls go together": (
        [
            user("first"),
            assistant(use("a"), use("b")),
            user(result("b"), result("a")),
            assistant("done"),
            user("last"),
        ],
        4,
        [1, 2],
    ),
    "an answer with a call is no reply": (
        [user("first"), *chat(1), user("second"), *steps("a"), user("last")],
        6,
        [1, 2, 3, 4, 5],
    ),
    "results with text are no turn": (
        [*chat(1), user("second"), assistant("so"), user("third"), assistant(use("a")), user(result("a"), "and")],
        4,
        [1, 2],
    ),
    "a wrapper is no turn": ([*chat(2), user("third"), assistant("so"), WRAPPER], 4, [1, 2]),
    "wrappers before the first turn stay": ([WRAPPER, *chat(2), user("last")], 5, [2, 3]),
    "a wrapper between reply and cut goes": ([*chat(2), WRAPPER, user("last")], 5, [1, 2, 4]),
    "the newest turn is cut though work began": ([*chat(2), user("last"), *steps("a", "b", "c")], 4, [1, 2]),
    "an older turn where the newest drops nothing": (
        [user("first"), user("second"), *steps("a", "b", "c", "d")],
        1,
        [2, 3],
    ),
    "a system message goes with its group": (
        [user("first"), assistant("yes"), user("second"), system("note"), assistant("so"), user("last")],
        5,
        [1, 2, 3],
    ),
    "parameters stay": (
        [user("first"), assistant("yes"), user("second"), system(output_config={}), assistant("so"), user("last")],
        5,
        [1, 2],
    ),
    "what loads our search stays": ([user("first"), *LOADING, *steps("a"), assistant("so"), user("last")], 6, [3, 4]),
    "what loads a tool of no kept call goes": (
        [user("first"), *LOADING_LATER, *steps("a"), assistant("so"), user("last")],
        6,
        [1, 2, 3, 4],
    ),
    "what loads a tool of a kept call stays": (
        [user("first"), *LOADING_LATER, assistant("so"), user("last"), *steps("a", tool=LATER)],
        4,
        [],
    ),
}


@pytest.mark.parametrize(("messages", "turn", "dropped"), CUTS.values(), ids=CUTS)
def test_a_trim_cuts_where_the_contract_says(messages: list[Json], turn: int, dropped: list[int]) -> None:
    found = planned(messages)
    if not dropped:
        assert found is None
        return
    assert found is not None
    assert (found.cut, gone(found)) == (turn, dropped)


NOTHING: dict[str, list[Json]] = {
    "one turn": [user("first")],
    "a turn of three steps": [user("first"), *steps("a", "b", "c")],
    "a paused answer": [
        *chat(3),
        user("last"),
        assistant({"type": "server_tool_use", "id": "s", "name": "w", "input": {}}),
    ],
    "a paused answer and a note": [
        *chat(3),
        user("last"),
        assistant({"type": "server_tool_use", "id": "s", "name": "w", "input": {}}),
        system("note"),
    ],
    "a begun answer": [*chat(3), user("last"), assistant("The answer is")],
    "wrappers alone": [WRAPPER, assistant("yes"), WRAPPER],
    "a first turn and its reply": [*chat(1), user("last")],
}


@pytest.mark.parametrize("messages", NOTHING.values(), ids=NOTHING)
def test_a_trim_that_would_drop_nothing_or_part_a_running_answer_is_none(messages: list[Json]) -> None:
    assert planned(messages) is None


def test_a_kept_group_keeps_what_loads_the_tools_it_uses() -> None:
    both = [
        assistant(use("load", "ToolSearch"), use("note", LATER)),
        user(result("load", [{"type": "tool_reference", "tool_name": SEARCH}]), result("note")),
    ]
    found = cut([user("first"), *LOADING_LATER, *steps("a"), *both, assistant("so"), user("last")])
    assert gone(found) == [3, 4]


def test_only_the_newest_group_that_loads_a_tool_stays() -> None:
    again = [assistant(use("x", "ToolSearch")), user(result("x", LOADING[1]["content"][0]["content"]))]
    assert gone(cut([user("first"), *LOADING, *again, assistant("so"), user("last")])) == [1, 2]


# --- the gap -----------------------------------------------------------------------------------------------


def test_one_long_turn_drops_its_oldest_steps_and_keeps_the_newest_three() -> None:
    found = cut(loop(10))
    assert (found.cut, found.gap, found.dropped) == (0, (1, 15), ((1, 15),))


def test_the_tail_keeps_older_steps_while_they_fit_but_never_the_first() -> None:
    messages = loop(10)
    items = items_of(messages)
    whole = sum(item.chars for item in items)
    assert cut(messages, tail=10 * whole).gap == (1, 3)
    for kept in range(4, 9):
        bound = items[0].chars + sum(item.chars for item in items[21 - 2 * kept :])
        assert cut(messages, tail=bound + 1).gap == (1, 21 - 2 * kept)
        assert cut(messages, tail=bound).gap == (1, 21 - 2 * (kept - 1))


def test_a_gap_begins_behind_what_the_user_added_to_the_turn() -> None:
    messages = [user("first"), WRAPPER, system("note"), *loop(6)[1:]]
    found = cut(messages)
    assert found.gap == (3, 9)
    assert gone(found) == [3, 4, 5, 6, 7, 8]


def test_later_trims_of_a_cut_only_move_the_gap_forward() -> None:
    view = cut(loop(8))
    for more in range(9, 14):
        wide = planned(loop(more), view, tail=10**6)
        assert wide is None  # a tail that may be longer brings nothing back
        grown = cut(loop(more), view)
        assert grown.gap is not None
        assert view.gap is not None
        assert (grown.cut, grown.gap[0]) == (0, view.gap[0])
        assert grown.gap[1] > view.gap[1]
        view = grown


def test_a_new_cut_begins_a_new_gap() -> None:
    view = cut(loop(8))
    messages = [*loop(8), assistant("done"), *loop(6, ask="go on")]
    found = cut(messages, view)
    assert (found.cut, found.gap) == (18, (19, 25))
    assert gone(found) == [*range(1, 17), *range(19, 25)]


def test_the_cut_turn_does_not_lose_what_stands_after_the_next_turn() -> None:
    """The loop of a cut turn ends where the user speaks again."""
    view = View(cut=0, dropped=((1, 3),), gap=(1, 3))
    messages = [*loop(8), user("again"), *loop(6, ask="again")[1:]]
    found = cut(messages, view)
    assert found.cut == 17


def test_steps_of_several_answers_stay_whole() -> None:
    messages = [user("first")]
    for name in "abcdef":
        messages += [assistant("thinking aloud"), assistant(use(name)), user(result(name)), WRAPPER]
    found = cut(messages)
    assert found.gap == (1, 13)


# --- system messages ---------------------------------------------------------------------------------------


def test_early_system_messages_move_behind_the_cut_turn_when_their_place_is_lost() -> None:
    messages = [user("first"), system("early"), assistant("a"), user("second"), assistant("b"), user("last"), WRAPPER]
    found = cut(messages)
    assert (found.moved, found.moved_after) == ((), None)  # the reply follows it
    without_reply = [user("first"), system("early"), *steps("a"), user("last"), WRAPPER]
    found = cut(without_reply)
    assert (gone(found), found.moved, found.moved_after) == ([2, 3], (1,), 5)


def test_the_newest_system_message_that_names_our_tools_stays_and_the_gap_leaves_it_in_place() -> None:
    notes = [system(f"{SEARCH} is there"), system(f"{SEARCH} is there again"), system("other")]
    messages = [user("first")]
    for name, note in zip("abcdefg", [*notes, None, None, None, None], strict=True):
        messages += [assistant(use(name)), user(result(name)), *([note] if note else [])]
    found = cut(messages)
    assert gone(found) == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
    assert found.moved == ()


def test_two_system_messages_that_would_meet_become_one() -> None:
    messages = [user("first"), system("early")]
    for name in "abcdef":
        messages += [assistant(use(name)), user(result(name))]
    messages[4:4] = [system(f"{SEARCH} is there")]
    found = cut(messages)
    assert (found.moved, found.moved_after) == ((1,), 0)  # to the front of the other


# --- reasoning ---------------------------------------------------------------------------------------------


def test_a_trim_strips_all_reasoning_the_model_produced_before_it() -> None:
    assert cut(loop(8, thinks=True)).strip == 17


def test_under_a_manual_budget_the_trailing_run_keeps_its_reasoning() -> None:
    assert cut(loop(8, thinks=True), manual=True).strip == 15
    two = [*loop(8, thinks=True)[:-2], assistant("aloud"), assistant(thinking(), use("z")), user(result("z"))]
    assert cut(two, manual=True).strip == 15


def test_under_a_manual_budget_results_kept_beside_the_cut_turn_are_a_running_loop() -> None:
    messages = [user("first"), *steps("a"), *LOADING, user("last")]
    found = cut(messages, manual=True)
    assert (gone(found), found.strip) == ([1, 2], 3)


# --- marks -------------------------------------------------------------------------------------------------


def test_a_view_marks_its_cut_its_edges_and_the_last_answer_it_strips() -> None:
    messages = [*chat(4), user("last")]
    items = items_of(messages)
    found = cut(messages)
    assert found.marks == tuple((index, mark(items[index])) for index in (1, 6, 7, 8))


@pytest.mark.parametrize("edited", [1, 6, 7, 8])
def test_a_view_does_not_fit_a_history_that_differs_at_a_mark(edited: int) -> None:
    messages = [*chat(4), user("last")]
    view = cut(messages)
    assert view.matches(items_of([*messages, assistant("yes")]))
    other = [*messages]
    other[edited] = {**other[edited], "content": "edited"}
    assert not view.matches(items_of(other))
    assert not view.matches(items_of(messages[:8]))


def test_dropped_messages_are_counted_without_those_that_moved() -> None:
    assert trim.missing(cut([user("first"), system("early"), *steps("a"), user("last")])) == 2
