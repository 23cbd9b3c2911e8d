"""Whose rule: every agent with a launcher is a command, and is told its base URLs in the way it reads them."""

import tomllib

import pytest
from openmem_addon.commands import cli
from openmem_addon.commands.clients import ANY, CLIENTS


def test_every_client_is_a_command_that_launches() -> None:
    launchers = {name for name, command in cli.COMMANDS.items() if command.module == "launch"}
    assert launchers == {*CLIENTS, "run"}


@pytest.mark.parametrize("name", ["claude", "opencode"])
def test_a_base_url_is_told_in_the_variable_it_is_read_from(name: str) -> None:
    urls = {endpoint.variable: "http://127.0.0.1:9" for endpoint in CLIENTS[name].endpoints}
    assert CLIENTS[name].tell(urls) == (urls, ())


def test_codex_is_told_its_base_url_as_a_line_of_its_configuration() -> None:
    told, (flag, line) = CLIENTS["codex"].tell({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
    assert (told, flag) == ({}, "-c")
    assert tomllib.loads(line) == {"openai_base_url": "http://127.0.0.1:9/v1"}


def test_any_program_is_told_the_base_urls_of_both_vendors_libraries() -> None:
    assert [endpoint.variable for endpoint in ANY.endpoints] == ["ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"]
