"""Hold each agent's entries to what that agent reads, and what is ours to being told from what is not."""

import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from openmem_addon.commands import jsontext, wiring
from openmem_addon.commands.wiring import Programs, Wanted, Wire

from tests.addon.commands.written import json_files, toml_files

EXAMPLES = int(os.environ.get("OPENMEM_EXAMPLES", "100"))

PROGRAMS = Programs("/env/bin/openmem-context-mcp", "/env/bin/openmem-context-hook", {})
HOME = Path("/home/me")
OURS = "/env/bin/openmem-context-hook claude-code"


def claude(*, hooks: bool = True, at_once: bool = False) -> tuple[Wire, ...]:
    return wiring.wires("claude", HOME, {}, PROGRAMS, Wanted(hooks=hooks, at_once=at_once))


def test_each_agent_has_its_files() -> None:
    wanted = Wanted(hooks=True, at_once=False)
    paths = {
        agent: [str(wire.path) for wire in wiring.wires(agent, HOME, {}, PROGRAMS, wanted)] for agent in wiring.AGENTS
    }
    assert paths == {
        "claude": ["/home/me/.claude.json", "/home/me/.claude/settings.json"],
        "codex": ["/home/me/.codex/config.toml", "/home/me/.codex/hooks.json"],
        "opencode": ["/home/me/.config/opencode/opencode.json"],
    }


def test_an_agents_own_variable_moves_its_files() -> None:
    environ = {"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "XDG_CONFIG_HOME": "/o"}
    wanted = Wanted(hooks=True, at_once=False)
    paths = [str(wire.path) for agent in wiring.AGENTS for wire in wiring.wires(agent, HOME, environ, PROGRAMS, wanted)]
    assert paths == [
        "/c/.claude.json",
        "/c/settings.json",
        "/x/config.toml",
        "/x/hooks.json",
        "/o/opencode/opencode.json",
    ]
    assert [str(wiring.folder(agent, HOME, environ)) for agent in wiring.AGENTS] == ["/c", "/x", "/o/opencode"]


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "/a/.venv/bin/openmem-context-mcp", "args": []},
        {"command": "/a/run.sh", "args": ["mcp"]},
        {"command": "python", "args": ["-m", "openmem_store.reader.server"]},
        {"command": ["/a/.venv/bin/openmem-context-mcp"], "type": "local"},
        {"command": "openmem-context", "args": ["mcp"]},
    ],
)
def test_a_server_of_ours_is_known_however_it_was_registered(entry: Any) -> None:
    assert wiring.is_our_server(entry)


@pytest.mark.parametrize(
    "entry", [None, "x", {}, {"command": "npx", "args": ["openmem", "mcp"]}, {"command": "/a/run.sh", "args": ["web"]}]
)
def test_any_other_is_not(entry: Any) -> None:
    assert not wiring.is_our_server(entry)


def test_a_hook_of_an_older_place_is_replaced() -> None:
    [_, hooks] = claude()
    old = hooks.put("{}\n").replace("/env/", "/old/")
    assert json.loads(hooks.put(old)) == json.loads(hooks.put("{}\n"))


def test_a_hook_that_a_person_moved_into_a_group_leaves_alone() -> None:
    [_, hooks] = claude()
    group = {"matcher": "startup", "hooks": [{"command": "theirs"}, {"command": OURS}, {"command": "more"}]}
    text = json.dumps({"hooks": {"SessionStart": [group]}})
    left = json.loads(hooks.take(text, text))
    assert left["hooks"]["SessionStart"] == [
        {"matcher": "startup", "hooks": [{"command": "theirs"}, {"command": "more"}]}
    ]


def test_without_hooks_those_that_are_there_leave() -> None:
    [_, with_ours], [_, without] = claude(), claude(hooks=False)
    assert "openmem" not in without.put(with_ours.put("{}\n"))


def test_what_was_empty_before_us_is_empty_after() -> None:
    [_, hooks] = claude()
    text = '{\n  "hooks": {\n    "SessionStart": []\n  }\n}\n'
    assert json.loads(hooks.take(hooks.put(text), text)) == json.loads(text)
    assert hooks.take(hooks.put("{}\n"), "{}\n").split() == ["{}"]


@pytest.mark.parametrize("text", ['{"hooks": []}', '{"hooks": {"SessionStart": {}}}', "[]"])
def test_a_shape_the_agent_does_not_know_is_refused(text: str) -> None:
    [_, hooks] = claude()
    with pytest.raises(ValueError, match="is not an"):
        hooks.put(text)


# --- any file -------------------------------------------------------------------------------------------------------


def check(wire: Wire, text: str, read: Callable[[str], dict[str, Any]], *ours: str) -> None:
    """Hold a change to adding our entries, to doing so once, and to the way back to the very bytes."""
    before = text = text if text.strip() else wire.empty
    try:
        added = wire.put(text)
    except ValueError:
        return  # it is left alone, and named
    assert wire.put(added) == added
    assert (added.count("\r\n") > 0) == (before.count("\r\n") > 0)
    assert wire.take(added, before) == before
    assert wire.put(wire.take(added, before)) == added
    left = read(added)
    for key in ours:
        assert json.dumps(left.get(key)).count("/env/bin/openmem") >= 1
        left.pop(key)
    assert left == {key: value for key, value in read(before).items() if key not in ours}


@settings(max_examples=EXAMPLES)
@given(text=json_files())
def test_what_goes_into_any_json_file_comes_out_of_it_without_a_trace(text: str) -> None:
    def read(text: str) -> dict[str, Any]:
        found = jsontext.parse(text.removeprefix(wiring.MARK)).value
        assert isinstance(found, dict)
        return found

    wanted = Wanted(hooks=True, at_once=True)
    [server, hooks] = wiring.wires("claude", HOME, {}, PROGRAMS, wanted)
    check(server, text, read, "mcpServers")
    check(hooks, text, read, "hooks")
    [server] = wiring.wires("opencode", HOME, {}, PROGRAMS, wanted)
    check(server, text, read, "mcp")


@settings(max_examples=EXAMPLES)
@given(text=toml_files())
def test_what_goes_into_any_toml_file_comes_out_of_it_without_a_trace(text: str) -> None:
    def read(text: str) -> dict[str, Any]:
        return tomllib.loads(text.removeprefix(wiring.MARK))

    [server, _] = wiring.wires("codex", HOME, {}, PROGRAMS, Wanted(hooks=True, at_once=False))
    check(server, text, read, "mcp_servers")
