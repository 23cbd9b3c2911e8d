"""Hold every change to the bytes it is about: what a person wrote beside them stays as it is."""

import tomllib

import pytest
from openmem_addon.commands import tomltext

ENTRY: dict[str, tomltext.Value] = {"command": "/x y", "args": ["a"], "required": True, "env": {"A": "1"}}
BLOCK = '[servers.ours]\ncommand = "/x y"\nargs = ["a"]\nrequired = true\nenv = { A = "1" }\n'
PATH = ("servers", "ours")

FILES = {
    "nothing": "",
    "keys": "# mine\nmodel = 'm'  # here\n",
    "another server": '[servers.theirs]\ncommand = "/t"\n\n[profile]\nx = 1\n',
    "a quoted header": '[projects."/a.b/[c]"]\ntrust = "yes"\n',
    "an array of tables": "[[hooks.Start]]\n[[hooks.Start.hooks]]\nx = 1\n",
    "windows lines": "a = 1\r\n[b]\r\nc = 2\r\n",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_a_table_is_added_at_the_end_and_taken_without_a_trace(text: str) -> None:
    added = tomltext.put(text, PATH, ENTRY)
    block = f"\n{BLOCK}" if text else BLOCK
    assert added == text + (block.replace("\n", "\r\n") if "\r" in text else block)
    assert tomltext.put(added, PATH, ENTRY) == added
    assert tomltext.without(added, PATH) == text


def test_a_last_line_without_an_end_gets_one() -> None:
    assert tomltext.put("a = 1", PATH, ENTRY) == f"a = 1\n\n{BLOCK}"


def test_a_table_in_the_middle_leaves_with_those_below_it() -> None:
    text = f"a = 1\n\n{BLOCK}\n[servers.ours.tools]\nx = 1\n\n# about b\n[b]\nc = 2\n"
    assert tomltext.without(text, PATH) == "a = 1\n\n# about b\n[b]\nc = 2\n"


def test_a_table_that_is_there_is_replaced_in_its_place() -> None:
    text = 'a = 1\n\n[servers.ours]\ncommand = "old"\n\n# about b\n[b]\nc = 2\n'
    assert tomltext.put(text, PATH, ENTRY) == f"a = 1\n\n{BLOCK}\n# about b\n[b]\nc = 2\n"


def test_of_a_table_that_is_there_what_is_not_ours_stays() -> None:
    text = (
        '[servers.ours]\ncommand = "old" # by hand\nargs = [\n  "a", # one\n]\ntimeout = 9 # slow\n\n'
        '[servers.ours.env]\nB = "2"\n\n[servers.ours.tools.search]\nmode = "approve"\n\n[b]\nc = 2\n'
    )
    after = (
        '[servers.ours]\ncommand = "/x"\ntimeout = 9 # slow\n\n\n'
        '[servers.ours.tools.search]\nmode = "approve"\n\n[b]\nc = 2\n'
    )
    assert tomltext.put(text, PATH, {"command": "/x"}, owned=("args", "env")) == after
    assert tomltext.put(after, PATH, {"command": "/x"}, owned=("args", "env")) == after


def test_what_was_added_behind_ours_stays() -> None:
    text = tomltext.put("a = 1\n", PATH, ENTRY) + '\n[projects."/p"]\ntrust = "yes"\n'
    assert tomltext.without(text, PATH) == 'a = 1\n\n[projects."/p"]\ntrust = "yes"\n'


@pytest.mark.parametrize(
    "text",
    [
        'servers = { theirs = { command = "/t" } }\n',
        'servers.ours.command = "old"\n',
        'text = """\n[servers.ours]\n"""\n[servers]\nours = { command = "old" }\n',
    ],
)
def test_a_table_written_in_another_way_is_left_to_the_person(text: str) -> None:
    with pytest.raises(ValueError, match="by hand"):
        tomltext.put(text, PATH, ENTRY)


def test_a_line_separator_in_a_comment_ends_no_line() -> None:
    text = "a = 1 # one\u2028[servers.ours]\n"
    assert tomltext.put(text, PATH, ENTRY) == f"{text}\n{BLOCK}"


def test_a_text_that_is_no_toml_is_refused() -> None:
    with pytest.raises(tomllib.TOMLDecodeError):
        tomltext.put("a = \n", PATH, ENTRY)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("", '[agents]\nintegration = "provider"\n'),
        ("[agents]\nx = 1\n", '[agents]\nintegration = "provider"\nx = 1\n'),
        ('[agents]\nx = 1\nintegration = "ours"\n[b]\n', '[agents]\nx = 1\nintegration = "provider"\n[b]\n'),
        ('[agents]\nintegration = "provider" # so\n', '[agents]\nintegration = "provider" # so\n'),
    ],
)
def test_a_key_is_set_in_its_table(text: str, after: str) -> None:
    assert tomltext.put_key(text, "agents", "integration", "provider") == after


def test_a_key_leaves_and_takes_an_empty_table_with_it() -> None:
    text = "a = 1\n"
    added = tomltext.put_key(text, "agents", "integration", "provider")
    assert tomltext.without_key(added, "agents", "integration") == text
    assert tomltext.without_key('[agents]\nx = 1\nintegration = "p"\n', "agents", "integration") == "[agents]\nx = 1\n"
    assert tomltext.without_key(text, "agents", "integration") == text
