"""Hold ids of calls to the place they are asked at."""

from openmem_addon.core.calls import Calls


def test_an_id_stands_for_the_last_call_that_used_it() -> None:
    calls = Calls[str]()
    calls.add("call_0", 1, "Read")
    calls.add("call_0", 5, "Write")
    assert calls.latest("call_0") == "Write"
    assert calls.latest("call_1") is None
    assert len(calls) == 1


def test_an_earlier_place_knows_what_was_known_there() -> None:
    calls = Calls[str]()
    calls.add("call_0", 1, "Read")
    calls.add("call_0", 5, "Write")
    calls.add("call_1", 5, "Run")
    assert calls.before(5).latest("call_0") == "Read"
    assert calls.before(5).latest("call_1") is None
    assert len(calls.before(1)) == 0


def test_two_histories_that_part_do_not_know_of_each_other() -> None:
    calls = Calls[str]()
    calls.add("call_0", 1, "Read")
    branch = calls.before(2)
    branch.add("call_0", 3, "Write")
    assert calls.latest("call_0") == "Read"
    assert branch.latest("call_0") == "Write"
