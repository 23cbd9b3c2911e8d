"""The command as a person runs it, in a home of its own, on files as the agents write them."""

import errno
import json
import os
import pty
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from openmem_addon.commands import install, wiring
from openmem_store.events import Trim, Usage
from openmem_store.layout import Layout
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter
from process import environment

FOLDER = Path(sys.executable).parent
CLAUDE = os.environ.get("OPENMEM_TEST_CLAUDE", "")

CLAUDE_JSON = '{\n  "userID": "u",\n  "oauth": {\n    "token": "sk-secret"\n  },\n  "projects": {}\n}'
CLAUDE_SETTINGS = (
    '{\n    "model": "opus",\n    "hooks": {\n        "SessionStart": [\n'
    '            {"hooks": [{"type": "command", "command": "theirs"}]}\n        ]\n    }\n}\n'
)
CODEX_TOML = '# mine\nmodel = "m"\n\n[mcp_servers.theirs]\ncommand = "/t"\n'
OPENCODE_JSONC = (
    '{\n  // mine\n  "autoupdate": false,\n  "mcp": {\n    "theirs": { "type": "local" }, // keep\n  }\n}\n'
)

FILES = {
    ".claude.json": CLAUDE_JSON,
    ".claude/settings.json": CLAUDE_SETTINGS,
    ".codex/config.toml": CODEX_TOML,
    ".config/opencode/opencode.jsonc": OPENCODE_JSONC,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A user of all three agents."""
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o640)
    return tmp_path


def variables(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in environment(home / "state").items() if not name.startswith("OPENMEM_")}
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        kept.pop(name, None)
    return {**kept, "HOME": str(home), **more}


def run(home: Path, *words: str, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "openmem_addon.commands.cli", *words],
        env=variables(home, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    return done


def contents(home: Path) -> dict[str, tuple[str, int]]:
    """Return text and mode of every file of the agents, and whatever else lies in the home."""
    return {
        str(path.relative_to(home)): (path.read_text(), path.stat().st_mode & 0o777)
        for path in sorted(home.rglob("*"))
        if path.is_file()
    }


def test_it_registers_tools_and_hooks_with_every_agent(home: Path) -> None:
    done = run(home, "install")
    assert done.stderr == ""
    mcp, hook = str(FOLDER / "openmem-context-mcp"), str(FOLDER / "openmem-context-hook")
    claude = json.loads((home / ".claude.json").read_text())
    assert claude["mcpServers"] == {"openmem": {"type": "stdio", "command": mcp, "args": []}}
    settings = json.loads((home / ".claude/settings.json").read_text())
    entry = {"type": "command", "command": f"{hook} claude-code", "timeout": 10}
    assert settings["hooks"]["SessionStart"] == [
        {"hooks": [{"type": "command", "command": "theirs"}]},
        {"hooks": [entry]},
    ]
    assert settings["hooks"]["UserPromptSubmit"] == [{"hooks": [entry]}]
    codex = tomllib.loads((home / ".codex/config.toml").read_text())
    assert codex["mcp_servers"]["openmem"] == {"command": mcp, "required": True, "startup_timeout_sec": 60}
    hooks = json.loads((home / ".codex/hooks.json").read_text())["hooks"]
    assert [hooks[event][0]["hooks"][0]["command"] for event in wiring.EVENTS] == [f"{hook} codex"] * 2
    opencode = (home / ".config/opencode/opencode.jsonc").read_text()
    assert f'"command": [\n        "{mcp}"\n      ]' in opencode
    assert "// mine" in opencode
    assert "// keep" in opencode


def test_what_is_printed_shows_our_lines_and_no_neighbour(home: Path) -> None:
    said = run(home, "install", "--agent", "claude").stdout
    assert said.startswith("~/.claude.json\n")
    assert '  +   "mcpServers": {' in said
    assert "projects" not in said
    assert "secret" not in said
    assert "(as it was: ~/.local/share/openmem/install/claude.json." in said
    assert "Claude Code: restart Claude Code" in said


def test_twice_is_once(home: Path) -> None:
    run(home, "install")
    before = contents(home)
    assert run(home, "install").stdout.splitlines() == [
        f"{title}: nothing to change" for title in ("Claude Code", "Codex", "OpenCode")
    ]
    assert contents(home) == before


def test_uninstall_leaves_every_file_as_it_was(home: Path) -> None:
    before = contents(home)
    run(home, "install", "--at-once")
    assert contents(home) != before
    run(home, "uninstall")
    assert contents(home) == before


def test_a_clean_home_is_clean_again(tmp_path: Path) -> None:
    for agent in wiring.AGENTS:
        run(tmp_path, "install", "--agent", agent)
    assert (tmp_path / ".codex/hooks.json").is_file()
    run(tmp_path, "uninstall", "--agent", "claude", "--agent", "codex", "--agent", "opencode")
    assert contents(tmp_path) == {}
    assert not (tmp_path / ".codex").exists()


def test_an_update_in_between_still_leads_back_to_the_first_bytes(home: Path) -> None:
    before = contents(home)
    run(home, "install")
    run(home, "install", "--at-once")
    assert json.loads((home / ".claude.json").read_text())["mcpServers"]["openmem"]["alwaysLoad"] is True
    run(home, "uninstall")
    assert contents(home) == before


def test_where_the_agent_wrote_since_only_our_entries_leave(home: Path) -> None:
    run(home, "install")
    path = home / ".claude.json"
    written = json.loads(path.read_text())
    written["projects"]["/p"] = {"trusted": True}
    path.write_text(json.dumps(written, indent=2))
    toml = home / ".codex/config.toml"
    toml.write_text(toml.read_text() + '\n[projects."/p"]\ntrust_level = "trusted"\n')
    run(home, "uninstall")
    del written["mcpServers"]
    assert path.read_text() == json.dumps(written, indent=2)
    assert toml.read_text() == CODEX_TOML + '\n[projects."/p"]\ntrust_level = "trusted"\n'
    assert list((home / ".local/share/openmem").glob("install/*")) == []


def test_a_dry_run_shows_and_writes_nothing(home: Path) -> None:
    before = contents(home)
    said = run(home, "install", "--dry-run").stdout
    assert "mcpServers" in said
    assert "[mcp_servers.openmem]" in said
    assert contents(home) == before
    run(home, "install")
    before = contents(home)
    assert '-   "mcpServers": {' in run(home, "uninstall", "--dry-run").stdout
    assert contents(home) == before


def test_a_dry_uninstall_shows_what_the_real_one_does(home: Path) -> None:
    run(home, "install")
    dry = run(home, "uninstall", "--dry-run").stdout
    assert "~/.codex/hooks.json (the whole file goes)\n" in dry
    assert "+ {}" not in dry
    lines = run(home, "uninstall").stdout.splitlines()
    ends = [f"{title}: done; restart it" for title in ("Claude Code", "Codex", "OpenCode")]
    assert [line for line in lines if line not in ends] == dry.splitlines()
    assert [line for line in lines if line in ends] == ends


def test_where_nothing_can_be_written_down_nothing_is_changed(home: Path) -> None:
    (home / ".claude/settings.json").unlink()
    before = contents(home)
    done = run(home, "install", code=1, OPENMEM_STATE_DIR="/dev/null/x")
    assert (done.stdout, done.stderr) == (
        "",
        "openmem-context: nothing was changed: what install changes cannot be written down in "
        f"/dev/null/x/install: {os.strerror(errno.ENOTDIR)}\n",
    )
    assert contents(home) == before


def test_after_codex_it_says_what_must_not_be_deleted(home: Path) -> None:
    said = run(home, "install", "--agent", "codex").stdout.splitlines()
    assert said[-1] == install.KEEP
    assert install.KEEP not in run(home, "install", "--agent", "claude").stdout


def test_a_server_of_the_same_name_that_is_not_ours_stays(home: Path) -> None:
    path = home / ".claude.json"
    theirs = '{"mcpServers": {"openmem": {"command": "npx", "args": ["@somebody/openmem", "mcp"]}}}'
    path.write_text(theirs)
    run(home, "install", "--agent", "claude")
    servers = json.loads(path.read_text())["mcpServers"]
    assert servers["openmem"]["command"] == "npx"
    assert servers["openmem-context"]["command"].endswith("openmem-context-mcp")
    path.write_text(path.read_text() + "\n")
    run(home, "uninstall", "--agent", "claude")
    assert path.read_text() == theirs + "\n"


def test_a_registration_by_hand_is_taken_over(home: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"mcpServers": {"openmem": {"command": "/repo/run.sh", "args": ["mcp"]}}}')
    run(home, "install", "--agent", "claude")
    assert list(json.loads(path.read_text())["mcpServers"]) == ["openmem"]


@pytest.mark.parametrize(
    ("content", "reason"),
    {
        b"{broken": "line 1 is not JSON",
        b'{"hooks": []}': "hooks is not an object",
        b'{"a": "\xff"}': "it is not UTF-8",
        b'{"a": 1, "a": 2}': "a key is there twice",
        b'{"a":' * 9_000: "its objects and arrays are too deep in each other",
    }.items(),
)
def test_a_file_that_cannot_be_read_is_named_and_nothing_of_its_agent_changes(
    home: Path, content: bytes, reason: str
) -> None:
    path = home / ".claude/settings.json"
    path.write_bytes(content)
    done = run(home, "install", "--agent", "claude", "--agent", "codex", code=1)
    assert done.stderr == f"openmem-context: ~/.claude/settings.json was left alone: {reason}\n"
    assert path.read_bytes() == content
    assert (home / ".claude.json").read_text() == CLAUDE_JSON
    assert "openmem" in (home / ".codex/config.toml").read_text()


def test_a_file_that_is_read_only_stays_so(home: Path) -> None:
    before = contents(home)
    path = home / ".codex/config.toml"
    path.chmod(0o444)
    done = run(home, "install", "--agent", "codex", code=1)
    assert done.stderr == "openmem-context: ~/.codex/config.toml was left alone: it is read-only\n"
    path.chmod(0o640)
    assert contents(home) == before
    run(home, "install", "--agent", "codex")
    path.chmod(0o444)
    assert run(home, "install", "--agent", "codex").stdout == "Codex: nothing to change\n"
    done = run(home, "uninstall", "--agent", "codex", code=1)
    assert done.stderr == "openmem-context: ~/.codex/config.toml was left alone: it is read-only\n"
    path.chmod(0o640)
    run(home, "uninstall", "--agent", "codex")
    assert contents(home) == before


def test_an_update_keeps_what_a_person_or_the_agent_added_to_our_entries(home: Path) -> None:
    run(home, "install", "--at-once", OPENMEM_STATE_DIR=str(home / "elsewhere"))
    toml, opencode = home / ".codex/config.toml", home / ".config/opencode/opencode.jsonc"
    approved = '\n[mcp_servers.openmem.tools.smart_compact_search]\napproval_mode = "approve"\n'
    toml.write_text(toml.read_text().replace("= 60", "= 90 # slow disk") + approved)
    opencode.write_text(opencode.read_text().replace("60000", "90000 /* slow disk */"))
    run(home, "install")
    assert toml.read_text() == CODEX_TOML + (
        f'\n[mcp_servers.openmem]\ncommand = "{FOLDER}/openmem-context-mcp"\nrequired = true\n'
        f"startup_timeout_sec = 90 # slow disk\n{approved}"
    )
    assert "90000 /* slow disk */" in opencode.read_text()
    assert json.loads((home / ".claude.json").read_text())["mcpServers"]["openmem"] == {
        "type": "stdio",
        "command": str(FOLDER / "openmem-context-mcp"),
        "args": [],
        "alwaysLoad": True,
    }
    run(home, "install", "--on-demand", "--agent", "claude")
    assert "alwaysLoad" not in (home / ".claude.json").read_text()


def test_an_update_after_the_agent_wrote_still_leads_back_to_what_is_not_ours(home: Path) -> None:
    run(home, "install", "--agent", "claude")
    path = home / ".claude.json"
    written = json.loads(path.read_text())
    written["projects"]["/p"] = {"trusted": True}
    path.write_text(json.dumps(written, indent=2))
    run(home, "install", "--agent", "claude", "--at-once")
    run(home, "uninstall", "--agent", "claude")
    del written["mcpServers"]
    assert path.read_text() == json.dumps(written, indent=2)
    assert not (home / ".local/share/openmem/install").exists()


def test_a_linked_file_stays_a_link(home: Path) -> None:
    path = home / ".claude/settings.json"
    target = home / "dotfiles.json"
    path.rename(target)
    path.symlink_to(target)
    run(home, "install", "--agent", "claude")
    assert path.is_symlink()
    assert "openmem-context-hook" in target.read_text()


def test_a_store_elsewhere_is_named_to_tools_and_hooks(home: Path) -> None:
    state = str(home / "my state")
    run(home, "install", "--agent", "claude", "--agent", "codex", OPENMEM_STATE_DIR=state)
    assert json.loads((home / ".claude.json").read_text())["mcpServers"]["openmem"]["env"] == {
        "OPENMEM_STATE_DIR": state
    }
    hook = json.loads((home / ".codex/hooks.json").read_text())["hooks"]["SessionStart"][0]["hooks"][0]["command"]
    event = json.dumps({"session_id": "s", "cwd": "/p", "hook_event_name": "SessionStart"})
    subprocess.run(hook, shell=True, check=True, input=event, text=True, env=variables(home), timeout=60)
    assert (home / "my state/context/sessions/s.json").is_file()


# --- whose hooks ----------------------------------------------------------------------------------------------------


def test_the_providers_hooks_take_the_place_of_ours_and_give_it_back(home: Path) -> None:
    config = home / ".config/openmem/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[context_proxy]\ntrim_tokens = 9000\n")
    run(home, "install")
    with_ours = contents(home)
    run(home, "install", "--provider-plugin")
    assert tomllib.loads(config.read_text())["agents"] == {"integration": "provider"}
    assert "openmem-context-hook" not in (home / ".claude/settings.json").read_text()
    assert "openmem-context-mcp" in (home / ".claude.json").read_text()
    run(home, "install")
    assert "openmem-context-hook" not in (home / ".claude/settings.json").read_text(), "the choice is kept"
    run(home, "install", "--no-provider-plugin")
    assert {name: each for name, each in contents(home).items() if "/install/" not in name} == {
        name: each for name, each in with_ours.items() if "/install/" not in name
    }


def test_the_old_flag_names_the_new_one(home: Path) -> None:
    done = run(home, "install", "--hindsight-plugin", code=2)
    assert done.stderr == "openmem-context: --hindsight-plugin is now --provider-plugin\n"


# --- words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    {
        ("--agent", "gemini"): "must be one of claude, codex, opencode",
        ("--agent",): "must be one of",
        ("--force",): "takes no '--force'",
        ("--at-once", "--on-demand"): "exclude each other",
        ("--provider-plugin", "--no-provider-plugin"): "exclude each other",
    }.items(),
)
def test_words_that_are_none_of_ours_are_refused(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        install.parse("install", words)


def test_uninstall_has_words_of_its_own() -> None:
    assert install.parse("uninstall", ["--agent=codex", "--dry-run"]) == install.Words(agents=("codex",), dry=True)
    with pytest.raises(ValueError, match="takes no '--at-once'"):
        install.parse("uninstall", ["--at-once"])


def test_where_no_agent_is_found_it_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "install", code=1, PATH="/nowhere")
    assert done.stderr == "openmem-context: no agent was found here: name one with --agent\n"


def test_uninstall_first_lists_the_sessions_that_will_not_fit(home: Path) -> None:
    layout = Layout(home / ".local/share/openmem/context")
    layout.prepare()
    writer = SessionWriter(layout.database("long"), version="proxy:0")
    rows = chain([Draft("user", "text", None, "x" * 600_000), Draft("user", "text", None, "now")])
    writer.sync(rows, dropped=(0,), cut=1, owned=0, blobs={}, at="t")
    writer.record(Trim(tokens_before=1, tokens_after=1, dropped=1), at="t")
    usage = Usage("local-model", rows[0].thread, 1, 100, 0, 0, 1, None, None)
    writer.record(usage, at="t")
    writer.close()
    said = run(home, "uninstall").stdout.splitlines()
    assert said[:2] == [
        "Without the proxy these sessions are too large for their model; start them anew instead of resuming:",
        "  long: about 240,100 tokens, local-model reads 200,000",
    ]


@pytest.mark.agent
@pytest.mark.skipif("claude" in os.environ.get("OPENMEM_TEST_SKIP", "").split(","), reason="OPENMEM_TEST_SKIP")
def test_claude_code_connects_to_what_was_registered(home: Path) -> None:
    assert CLAUDE, "OPENMEM_TEST_CLAUDE names the client; ./run.sh test installs it"
    run(home, "install", "--agent", "claude")
    listed = subprocess.run(
        [CLAUDE, "mcp", "list"], env=variables(home), cwd=home, capture_output=True, text=True, timeout=120
    )
    [line] = [line for line in listed.stdout.splitlines() if line.startswith("openmem:")]
    assert "Connected" in line


# --- the one question -----------------------------------------------------------------------------------------------


def test_a_person_is_asked_once_whether_the_tools_load_at_once(home: Path) -> None:
    def answered(answer: bytes) -> str:
        person, terminal = pty.openpty()
        try:
            os.write(person, answer)
            done = subprocess.run(
                [sys.executable, "-m", "openmem_addon.commands.cli", "install", "--agent", "claude"],
                env=variables(home),
                stdin=terminal,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            )
        finally:
            os.close(person)
            os.close(terminal)
        return done.stdout

    def at_once() -> object:
        return json.loads((home / ".claude.json").read_text())["mcpServers"]["openmem"].get("alwaysLoad")

    assert "with the first request (some 1,000 tokens)? [y/N] " in answered(b"y\n")
    assert at_once() is True
    assert answered(b"\n") == "Claude Code: nothing to change\n"
    assert at_once() is True
    run(home, "uninstall")
    answered(b"\n")
    assert at_once() is None
