"""Own how a command gets its settings, read once, warnings to the terminal; and the hosts and the store they name."""

import difflib
import errno
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from openmem_store import settings as stored
from openmem_store.layout import Layout
from openmem_store.settings import Settings

from openmem_addon import hosts
from openmem_addon.hosts import Host

LIKENESS = 0.9
"""From which on a name is a setting's misspelt: one letter too many, too few or wrong."""


def load() -> Settings:
    """Return the settings of this process's environment; what was ignored is said on stderr.

    Raises SettingsError for a value that cannot be used.
    """
    loaded = stored.load(os.environ)
    misspelt = [f"{name} is no setting, and does nothing ({meant} is one)" for name, meant in meant_by(os.environ)]
    for warning in (*loaded.warnings, *misspelt):
        print(f"openmem-context: {warning}", file=sys.stderr)
    return loaded.settings


def meant_by(environ: Iterable[str]) -> list[tuple[str, str]]:
    """Return the variables that are almost settings, each with the one that was meant."""
    known = {source.variable for source in stored.SOURCES.values()}
    names = sorted(name for name in environ if name.startswith("CONTEXT_") and name not in known)
    return [(name, near[0]) for name in names if (near := difflib.get_close_matches(name, known, 1, LIKENESS))]


def prepare(settings: Settings) -> Layout:
    """Return the store with its folders made.

    Raises OSError that names the state folder, its variable and the reason where nothing can be stored in it.
    """
    layout = Layout(settings.root)
    try:
        layout.prepare()
        for folder in (layout.root, layout.sessions, layout.blobs):
            if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise OSError(
            f"the state folder {readable(settings.root.parent)} cannot be used ({error.strerror}): "
            f"name another in {stored.STATE.variable}, or mend this one"
        ) from error
    return layout


def provider_hosts(settings: Settings) -> tuple[Host, ...]:
    """Return the built-in provider hosts and those the settings add. Raises ValueError for one that is no host."""
    return (*hosts.PROVIDERS, *(hosts.parse(entry) for entry in settings.provider_hosts))


def readable(path: Path) -> str:
    """Return a path as a person would type it: below the home directory with `~`."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
