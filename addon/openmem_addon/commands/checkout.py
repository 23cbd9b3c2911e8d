"""Own where things lie in a checkout: the addon's script, the certificates, the fixtures."""

from pathlib import Path

import openmem_addon

ROOT = Path(openmem_addon.__file__).resolve().parents[2]
"""The folder that holds run.sh; for an installed wheel a folder that holds none of the files below."""

CERTIFICATES = ROOT / "certs"


def addon_script() -> Path:
    """Return the script mitmdump loads. Raises FileNotFoundError where the package is installed without it."""
    script = ROOT / "addon" / "main.py"
    if not script.is_file():
        raise FileNotFoundError(f"{script} is missing: the proxy runs from a checkout, start it with ./run.sh")
    return script
