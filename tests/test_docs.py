"""Whose rule: what the documents promise is what the code does, and what the code offers is documented."""

import re
from pathlib import Path

from openmem_addon import hosts
from openmem_addon.commands import certificate, cli, launch, mitm, trust
from openmem_store import settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CERTIFICATES = (ROOT / "certs" / "README.md").read_text()

IN_CODE = re.compile(r"`([^`\n]+)`")


def table(text: str, first_column: str) -> list[list[str]]:
    """Return the rows of the table whose first heading is `first_column`, without its two heading lines."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first_column} |"))
    rows: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip()[1:-1].split("|")])
    return rows


def test_the_table_of_commands_names_every_command() -> None:
    names = {command[0] for row in table(README, "Command") if (command := IN_CODE.findall(row[0])[0].split(" ")[1:])}
    assert names == {*cli.COMMANDS, "test"}


def test_the_first_block_leads_from_a_look_to_a_trimmed_agent_and_back() -> None:
    """Without `install` an agent has no search tools, and nothing is trimmed."""
    block = README.split("```sh\n")[1].split("```")[0]
    assert re.findall(r"run\.sh ([a-z]+)", block) == ["demo", "install", "claude", "uninstall"]


def test_the_line_that_says_how_all_of_it_is_removed_names_each_place() -> None:
    line = README.split("To remove everything:")[1].split("\n\n")[0]
    for place in (settings.STATE.default, str(Path(settings.CONFIG.default).parent)):
        assert f"`{place}`" in line


def test_what_the_local_model_takes_is_what_run_sh_says() -> None:
    size = "65 MB to download, 170 MB on disk"
    assert size in (ROOT / "run.sh").read_text()
    assert size in " ".join(README.split())


def test_every_line_with_run_sh_is_a_command_there_is() -> None:
    for document in (README, CERTIFICATES):
        for name in re.findall(r"run\.sh ([a-z]+)", document):
            assert name in {*cli.COMMANDS, "test"}


def test_the_options_of_the_launchers_are_those_it_takes() -> None:
    for option in re.findall(r"^  (--[a-z-]+)", launch.HELP, re.MULTILINE):
        words = [option, "9"] if option in ("--port", "--proxy-arg") else [option]
        assert launch.parse(words).command == ()
    assert "`--no-ca`" in README


def test_the_hosts_that_are_said_to_be_intercepted_are() -> None:
    paragraph = README.split("### What is intercepted")[1].split("##")[0]
    for host in hosts.PROVIDERS:
        assert f"`{host.name}`" in paragraph


def test_the_port_is_the_one_it_listens_on() -> None:
    assert f"on {mitm.LOOPBACK}:{mitm.PORT}" in README


def test_every_file_a_document_leads_to_is_there() -> None:
    for document, folder in ((README, ROOT), (CERTIFICATES, ROOT / "certs")):
        for target in re.findall(r"\]\(([^)#]+)\)", document):
            assert (folder / target).exists(), target


def test_the_page_on_certificates_names_the_files_and_variables_of_the_code() -> None:
    authority = certificate.Authority(Path("/certs"))
    written = {path.name for path in (authority.key, authority.certificate, authority.bundle, authority.roots)}
    assert {row[0].strip("`") for row in table(CERTIFICATES, "File")} == written | {"mitmproxy-dhparam.pem"}
    variables = {row[1].strip("`"): IN_CODE.findall(row[2])[0] for row in table(CERTIFICATES, "Client")}
    assert variables == {name: Path(value).name for name, value in trust.variables(authority, {}).items()}


def test_each_target_of_the_makefile_that_is_named_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in ("style", "types", "imports", "tests", "pins", "settings"):
        assert f"\n{target}:" in makefile
    assert "`style types imports tests`" in README
    assert "all: style types imports tests" in makefile
