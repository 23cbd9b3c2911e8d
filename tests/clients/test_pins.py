"""Hold the pinned versions to one place."""

import re

from fixtures.clients.pins import pins
from fixtures.clients.place import ROOT


def test_the_pins_are_those_of_the_script() -> None:
    found = pins()
    assert set(found) == {"claude", "codex", "opencode"}
    for pin in found.values():
        assert re.fullmatch(r"\d+\.\d+\.\d+", pin.version)
        assert pin.variable == f"OPENMEM_TEST_{pin.name.upper()}"
        assert (ROOT / "tests" / pin.test).is_file()
        assert pin.program().parts[-4:] == (f"{pin.name}-{pin.version}", "node_modules", ".bin", pin.name)
