"""Own which hook set is in charge, ours or the memory provider's: `[agents] integration` in the settings file."""

import tomllib
from pathlib import Path

from openmem_addon.commands import tomltext
from openmem_addon.commands.wiring import Wire

TABLE, KEY, PROVIDER = "agents", "integration", "provider"


def is_provider(config: Path) -> bool:
    """Return whether the provider's hooks were chosen. A file that is not there or no TOML chooses nothing."""
    try:
        table = tomllib.loads(config.read_bytes().decode()).get(TABLE)
    except (OSError, ValueError):
        return False
    return isinstance(table, dict) and table.get(KEY) == PROVIDER


def wire(config: Path, *, provider: bool) -> Wire:
    """Return the change of the settings file that chooses a hook set."""

    def put(text: str) -> str:
        if provider:
            return tomltext.put_key(text, TABLE, KEY, PROVIDER)
        return tomltext.without_key(text, TABLE, KEY)

    def take(text: str, original: str) -> str:
        return tomltext.without_key(text, TABLE, KEY)

    return Wire(config, "", put, take)
