"""Hold a thread to remembering the views it was shown under, and to finding the one a history fits."""

from openmem_addon.core import anthropic
from openmem_addon.core.model import Item, mark
from openmem_addon.core.rendering import Rendering
from openmem_addon.core.view import KEPT_VIEWS, Thread, View

from tests.conversations import assistant, body, chat, encode, system, user


def items_of(*messages: dict) -> tuple[Item, ...]:
    return anthropic.parse(encode(body(*messages))).items


HISTORY = items_of(*chat(4))


def marked(*indexes: int, cut: int = 0) -> View:
    return View(cut=cut, marks=tuple((index, mark(HISTORY[index])) for index in indexes))


def test_the_newest_view_that_fits_is_shown_and_the_base_view_else() -> None:
    base, old, new = View(instruct=True), marked(1, cut=1), marked(1, 5, cut=5)
    thread = Thread(base=base, views=(new, old))
    assert thread.view(HISTORY) is new
    assert thread.view(HISTORY[:4]) is old
    assert thread.view(HISTORY[:1]) is base


def test_a_view_that_does_not_fit_is_ignored_and_comes_back_with_its_history() -> None:
    thread = Thread(base=View(), views=(marked(1, 5, cut=5),))
    rewound = (*HISTORY[:4], *items_of(user("another way"), assistant("so")))
    assert thread.view(rewound) is thread.base
    assert thread.view(HISTORY) is thread.views[0]


def test_a_thread_remembers_its_newest_views() -> None:
    thread = Thread(base=View())
    for cut in range(KEPT_VIEWS + 2):
        thread = thread.trimmed_to(View(cut=cut))
    assert [view.cut for view in thread.views] == list(range(KEPT_VIEWS + 1, 1, -1))


def test_a_view_that_grew_takes_the_place_of_the_one_it_grew_from() -> None:
    base, one, two = View(), marked(1, cut=1), marked(3, cut=3)
    thread = Thread(base=base, views=(two, one))
    grown = View(cut=1, compressed={"b": 1})
    assert thread.replacing(one, grown) == Thread(base=base, views=(two, grown))
    assert thread.replacing(base, grown) == Thread(base=grown, views=(two, one))
    assert thread.replacing(marked(1, cut=1), grown) == thread.replacing(one, grown)


def test_a_thread_counts_as_changed_when_any_view_of_it_shows_other_bytes() -> None:
    assert not Thread(base=View(active=True)).changed()
    assert Thread(base=View(instruct=True)).changed()
    assert Thread(base=View(compressed={"b": 1})).changed()
    assert Thread(base=View(), views=(marked(1),)).changed()
    assert Thread(base=View(), valve=True).changed()


def test_a_dropped_index_lies_in_one_of_the_ranges() -> None:
    view = View(dropped=((1, 3), (5, 6)))
    assert [index for index in range(8) if view.drops(index)] == [1, 2, 5]


def test_a_rendering_changes_items_when_any_is_left_out_or_rewritten() -> None:
    def rendering(**more) -> Rendering:
        given = {
            "instruct": True,
            "kept": (0, 1),
            "stripped": frozenset(),
            "emptied": frozenset(),
            "note": "",
            "noted": None,
            "moved": (),
            "moved_after": None,
            "valve": False,
            "compressed": {},
        }
        return Rendering(**{**given, **more})

    assert not rendering().changes_items(2)
    assert rendering().changes_items(3)
    for more in ({"stripped": frozenset({1})}, {"noted": 0}, {"compressed": {1: {0: "x"}}}):
        assert rendering(**more).changes_items(2)


def test_a_system_message_without_an_answer_is_matched_by_its_text() -> None:
    history = items_of(user("go"), system("note"))
    view = View(marks=((1, mark(history[1])),))
    assert view.matches(history)
    assert not view.matches(items_of(user("go"), system("another note")))
