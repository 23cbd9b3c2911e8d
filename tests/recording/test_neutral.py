"""What a recording keeps and what it replaces."""

import json

import pytest

from fixtures.recording import filler
from fixtures.recording.neutral import KEY, Neutral
from tests.provider.bodies import assistant, body, result, system, text, use, user

UUID = "3f0c9a52-77de-4a5e-9b1e-0d6f4c2b8a11"
OTHER = "9b1e0d6f-77de-4a5e-9b1e-3f0c9a524c2b"
PATHS = {"/scratch/x/home": "/home/user", "/scratch/x/home/work": "/home/user/project"}


@pytest.fixture
def neutral():
    return Neutral(PATHS, ["the lamp is lit at dusk\nthe tide tables", "Light it."])


KEPT = [
    "the lamp is lit at dusk",
    "  the tide tables",
    "2\tthe lamp is lit at dusk",
    "Go on. SCENARIO:lamp@4",
    "Exit code 3",
    "mcp__openmem__smart_compact_search",
    "WebFetch",
    "Bash, Read",
    "300",
    "",
    "<system-reminder>",
    "<status></status>",
    "toolu_01s0001x0968a759161",
]


@pytest.mark.parametrize("line", KEPT)
def test_what_is_ours_or_structure_stays(neutral, line):
    assert neutral.text(line) == line


REPLACED = [
    "You are an agent of a vendor.",
    "  - Do not do that.",
    "2\tnot a line of ours",
    "<status>finished well</status>",
    "the lamp is lit at dusk, says the vendor",
]


@pytest.mark.parametrize("line", REPLACED)
def test_any_other_line_is_filled_at_its_length(neutral, line):
    given = neutral.text(line)
    assert given != line
    assert len(given) == len(line)
    assert not set("You agent vendor not finished says".split()) & set(given.split())


def test_what_was_made_neutral_stays_as_it_is(neutral):
    given = neutral.text("\n".join([*KEPT, *REPLACED, UUID]))
    assert Neutral({}, ["the lamp is lit at dusk\nthe tide tables"]).text(given) == given


def test_paths_are_replaced_the_longer_first(neutral):
    made = neutral.body(body(user("Light it."), assistant(use(input={"path": "/scratch/x/home/work/a.txt"}))))
    assert made["messages"][1]["content"][0]["input"] == {"path": "/home/user/project/a.txt"}


def test_an_id_is_the_same_everywhere_and_two_are_two(neutral):
    first, again, second = (neutral.header("x-id", value) for value in (UUID, UUID, OTHER))
    assert first == again == "00000000-0000-4000-8000-000000000001"
    assert second == "00000000-0000-4000-8000-000000000002"
    user_id = json.dumps({"device_id": "ab" * 32, "session_id": OTHER}, separators=(",", ":"))
    made = neutral.body(body(user("Light it."), metadata={"user_id": user_id}))["metadata"]["user_id"]
    assert json.loads(made) == {"device_id": "1".rjust(64, "0"), "session_id": second}


def test_an_id_is_replaced_everywhere_in_the_text_that_first_shows_it(neutral):
    line = "Runs with ID: bwgv0be0z, see tasks/bwgv0be0z.output"
    assert neutral.text(line) == neutral.text(line)
    assert neutral.header("x", "bwgv0be0z") == "b00000001"


def test_what_is_learned_from_an_answer_is_replaced_where_the_client_sends_it_back(neutral):
    neutral.learn("toolu_raw", "toolu_new")
    neutral.learn("sigraw", "signew")
    thought = {"type": "thinking", "thinking": "", "signature": "sigraw"}
    made = neutral.body(body(user("Light it."), assistant(thought, use("toolu_raw")), user(result("toolu_raw"))))
    assert made["messages"][1]["content"][0]["signature"] == "signew"
    assert made["messages"][1]["content"][1]["id"] == "toolu_new"
    assert made["messages"][2]["content"][0]["tool_use_id"] == "toolu_new"


def test_the_billing_text_keeps_its_form_and_loses_its_hashes(neutral):
    billing = f"x-anthropic-billing-header: cc_version=2.1.332.09e; cch=56b17; cc_prompt_id={UUID};"
    made = neutral.body(body(user("Light it."), system=[text(billing), text("You are an agent.")]))["system"]
    assert made[0]["text"] == (
        "x-anthropic-billing-header: cc_version=2.1.332.000; cch=00000; "
        "cc_prompt_id=00000000-0000-4000-8000-000000000001;"
    )
    assert filler.filled(made[1]["text"])


def test_a_tool_keeps_its_schema_and_loses_its_descriptions(neutral):
    schema = {
        "type": "object",
        "properties": {"description": {"type": "string", "description": "Say what it does."}},
        "required": ["description"],
    }
    tool = {"name": "Bash", "description": "Runs a command.", "input_schema": schema}
    made = neutral.body(body(user("Light it."), tools=[tool]))["tools"][0]
    assert filler.filled(made["description"])
    inner = made["input_schema"]["properties"]["description"]
    assert (inner["type"], len(inner["description"])) == ("string", len("Say what it does."))
    assert filler.filled(inner["description"])
    assert made["input_schema"]["required"] == ["description"]


def test_the_projects_own_tools_and_their_results_stay(neutral):
    tool = {"name": "mcp__openmem__smart_compact_search", "description": "Find earlier messages."}
    answer = result(content='{"results": ["a row"]}')
    request = body(
        user("Light it."), assistant(use(tool=tool["name"])), user(answer), tools=[tool], model="claude-opus-5-5"
    )
    assert neutral.body(request) == request


def test_a_clients_system_message_is_the_vendors(neutral):
    made = neutral.body(body(user("Light it."), system("Keep the user informed.", output_config={"effort": "low"})))
    assert filler.filled(made["messages"][1]["content"])
    assert list(made["messages"][1]) == ["role", "content", "output_config"]


def test_the_order_of_keys_stays(neutral):
    request = {"model": "m", "stream": True, **body(user("Light it."), system=[text("x")])}
    assert list(neutral.body(request)) == list(request)


def test_headers_lose_the_key_and_what_the_machine_took(neutral):
    assert neutral.header("x-api-key", "real") == KEY
    assert neutral.header("x-claude-code-prev-tool-durations", "Bash=361,Read=4") == "Bash=5,Read=5"
    assert neutral.header("Accept", "application/json") == "application/json"
