"""Own how a command gets its settings, read once, warnings to the terminal; and the hosts and the store they name."""

import errno
import os
import sys
from pathlib import Path

from openmem_store import settings as stored
from openmem_store.layout import Layout
from openmem_store.settings import Settings

from openmem_addon import hosts
from openmem_addon.hosts import Host


def load() -> Settings:
    """Return the settings of this process's environment; what was ignored is said on stderr.

    Raises SettingsError for a value that cannot be used.
    """
    loaded = stored.load(os.environ)
    for warning in loaded.warnings:
        print(f"openmem-context: {warning}", file=sys.stderr)
    return loaded.settings


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
