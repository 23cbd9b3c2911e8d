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


@pytest.mark.usefixtures("empty_home")
def test_a_variable_that_is_almost_a_setting_is_said_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONTEXT_TRIM_TOKEN", "5")
    monkeypatch.setenv("CONTEXT_OF_ANOTHER_PROGRAM", "5")
    assert preferences.load().trim_tokens == 120_000
    assert capsys.readouterr() == (
        "",
        "openmem-context: CONTEXT_TRIM_TOKEN is no setting, and does nothing (CONTEXT_TRIM_TOKENS is one)\n",
    )


def test_a_path_is_said_as_a_person_types_it(empty_home: Path) -> None:
    assert preferences.readable(empty_home / ".local/share") == "~/.local/share"
    assert preferences.readable(Path("/srv/store")) == "/srv/store"


def test_a_store_is_made_where_there_was_none(tmp_path: Path) -> None:
    assert preferences.prepare(Settings(root=tmp_path / "state/context")).root == tmp_path / "state/context"
    assert {path.name for path in (tmp_path / "state/context").iterdir()} == {"sessions", "blobs"}


def test_a_state_folder_that_cannot_be_used_is_named_with_its_variable_and_the_reason(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(OSError, match="the state folder") as caught:
        preferences.prepare(Settings(root=tmp_path / "state/context"))
    assert str(caught.value) == (
        f"the state folder {tmp_path / 'state'} cannot be used (Not a directory): "
        "name another in OPENMEM_STATE_DIR, or mend this one"
    )


def test_a_state_folder_that_takes_no_files_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read-only file system lets us see the folders that are there already."""
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(OSError, match=r"cannot be used \(Permission denied\): name another in OPENMEM_STATE_DIR"):
        preferences.prepare(Settings(root=tmp_path / "context"))
