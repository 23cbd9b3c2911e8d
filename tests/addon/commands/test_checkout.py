from pathlib import Path

import pytest
from openmem_addon.commands import checkout


def test_the_checkout_is_the_folder_of_run_sh() -> None:
    assert (checkout.ROOT / "run.sh").is_file()
    assert checkout.addon_script() == checkout.ROOT / "addon" / "main.py"


def test_an_installation_without_the_script_says_how_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"the proxy runs from a checkout, start it with \./run\.sh"):
        checkout.addon_script()
