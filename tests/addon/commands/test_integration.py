"""Hold the choice of a hook set to one key of the settings file."""

from pathlib import Path

import pytest
from openmem_addon.commands import integration


def test_the_choice_is_written_and_taken_back(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    text = "# mine\n[context_proxy]\ntrim_tokens = 9000\n"
    chosen = integration.wire(config, provider=True).put(text)
    config.write_text(chosen)
    assert integration.is_provider(config)
    assert integration.wire(config, provider=False).take(chosen, text) == text


@pytest.mark.parametrize("text", ["", "[agents]\n", '[agents]\nintegration = "openmem"\n', "agents = 1\n", "[broken"])
def test_anything_else_chooses_ours(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text(text)
    assert not integration.is_provider(config)
    assert not integration.is_provider(tmp_path / "none")
