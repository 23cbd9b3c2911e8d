"""Scripts and where a conversation stands in one."""

import pytest

from fixtures.provider import scenario
from fixtures.provider.scenario import Asked, Call, Place, Said, Step
from tests.provider.bodies import assistant, body, result, use, user


def call(step, position=0):
    """Return the id a call of a step has."""
    return scenario.call_id(step, position, "0123456789abcdef")


def exchange(step):
    """Return the call of a step and its result."""
    return assistant(use(call(step))), user(result(call(step)))


START = user("Please work. SCENARIO:build")

PLACES = {
    "no marker": (body(user("hello")), None),
    "a first prompt": (body(START), Place("build", 0)),
    "after two calls": (body(START, *exchange(0), *exchange(1)), Place("build", 2)),
    "old calls trimmed away": (body(START, *exchange(7), *exchange(8)), Place("build", 9)),
    "results in any order": (
        body(START, assistant(use(call(3, 1)), use(call(3, 0))), user(result(call(3, 0)), result(call(3, 1)))),
        Place("build", 4),
    ),
    "a newer marker wins": (body(START, *exchange(0), user("SCENARIO:test")), Place("test", 0)),
    "a place in a script": (body(START, *exchange(4), user("SCENARIO:build@5")), Place("build", 5)),
    "a reply without calls": (body(START, *exchange(0), assistant("done"), user("more")), Place("build", 2)),
    "a marker in a result is no marker": (
        body(START, assistant(use(call(0))), user(result(call(0), content="SCENARIO:test"))),
        Place("build", 1),
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_where_a_conversation_stands(name):
    request, place = PLACES[name]
    assert scenario.locate(request) == place


def test_a_script_answers_step_by_step_and_then_says_it_is_over():
    scripts = {"build": (Step(text="one"), Step(tools=(Call("Read", {}),)))}
    asked = [scenario.answer(scripts, Asked({}, {}, "build", n)) for n in range(3)]
    assert asked == [*scripts["build"], Step(text="Nothing is left to do in build.")]


def test_a_script_may_be_a_function_of_the_request():
    scripts = {"echo": lambda asked: Step(text=f"{asked.index} {asked.body['model']}")}
    step = scenario.answer(scripts, Asked(body(user("go")), {}, "echo", 3))
    assert step == Step(text="3 claude-opus-5-5")


def test_an_unknown_script_is_a_key_error():
    with pytest.raises(KeyError):
        scenario.answer({}, Asked({}, {}, "build", 0))


def test_a_file_of_scripts_is_read(tmp_path):
    file = tmp_path / "scripts.json"
    file.write_text('{"build": [{"text": "one", "tools": [{"name": "Read", "input": {"path": "a"}}]}]}')
    assert scenario.load(file) == {"build": (Step(text="one", tools=(Call("Read", {"path": "a"}),)),)}


@pytest.mark.parametrize("content", ['{"build": [{"txt": "one"}]}', "{", '{"build": {}}'])
def test_a_wrong_file_of_scripts_is_named(tmp_path, content):
    file = tmp_path / "scripts.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"scripts\.json"):
        scenario.load(file)


def test_a_history_of_any_wire_leads_to_its_place():
    """The ids of both kinds carry the step."""
    history = [
        Said("user", "SCENARIO:build"),
        Said("model", calls=(scenario.call_id(4, 0, "0" * 16, stem="call_"),)),
        Said("model"),
    ]
    assert scenario.follow(history) == Place("build", 6)
    assert scenario.follow([Said("model"), Said("user", "hello")]) is None


def test_a_request_for_json_gets_the_smallest_value_of_its_schema():
    schema = {"type": "object", "properties": {"title": {"type": "string"}, "new": {"type": "boolean"}}}
    step = scenario.side(Place("build", 0), schema=schema)
    assert step == Step(text='{"title":"A plain title","new":false}')


def test_a_compaction_gets_a_summary_that_carries_the_script_on():
    step = scenario.side(Place("build", 4), compacting=True)
    assert step is not None
    assert scenario.locate(body(user(step.text))) == Place("build", 4)


def test_a_probe_and_a_request_outside_any_script_get_a_short_text():
    assert scenario.side(None, probing=True) == Step(text="#")
    assert scenario.side(None) == Step(text="Understood.")
    assert scenario.side(Place("build", 0)) is None


def test_a_call_has_a_form_for_wires_without_namespaces_and_custom_tools():
    assert Call("search", {"q": "a"}).flat_name == "search"
    call = Call("search", custom="plain text", namespace="notes")
    assert (call.flat_name, call.arguments) == ("notes__search", {"input": "plain text"})
