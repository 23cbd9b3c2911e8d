from pathlib import Path

import pytest
from openmem_addon import hosts
from openmem_addon.commands import preferences
from openmem_store.settings import Settings


def test_hosts_of_the_settings_come_after_the_built_in_ones() -> None:
    settings = Settings(root=Path("/store"), provider_hosts=("llm.example.com", "*.example.org"))
    assert preferences.provider_hosts(settings) == (
        *hosts.PROVIDERS,
        hosts.Host("llm.example.com"),
        hosts.Host("example.org", wildcard=True),
    )


def test_what_was_ignored_is_said_on_stderr(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = empty_home / "config.toml"
    file.write_text("[context_proxy]\ncolour = 1\n")
    monkeypatch.setenv("OPENMEM_CONFIG", str(file))
    assert preferences.load().trim_tokens == 120_000
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"openmem-context: {file}: [context_proxy] colour is not a setting\n"


def test_a_path_is_said_as_a_person_types_it(empty_home: Path) -> None:
    assert preferences.readable(empty_home / ".local/share") == "~/.local/share"
    assert preferences.readable(Path("/srv/store")) == "/srv/store"
