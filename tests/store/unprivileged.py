"""Run code without root's right to write anywhere, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SOURCES = [str(Path(__file__).parents[2] / name) for name in (".", "store", "addon")]

_GIVE_UP = """
import ctypes, os, sys
if os.geteuid() == 0 and sys.platform == "linux":
    for right in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, out of what a program may be given
        ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""

_ABLE = """
import sys, tempfile
from pathlib import Path
sys.path[:0] = {sources!r}
with tempfile.TemporaryDirectory() as folder:
    closed = Path(folder, "closed")
    closed.mkdir(mode=0o500)
    try:
        closed.joinpath("file").touch()
    except PermissionError:
        pass
    else:
        print('"able"')
        sys.exit()
"""


def run(code: str, *given: str) -> Any:
    """Run Python code that prints one JSON document, and return that. `given` are its arguments."""
    program = _ABLE.format(sources=SOURCES) + code
    ended = subprocess.run(
        [sys.executable, "-c", _GIVE_UP, "-c", program, *given], stdout=subprocess.PIPE, check=True, timeout=300
    )
    said = json.loads(ended.stdout)
    if said == "able":
        pytest.skip("this user may write anywhere, and cannot give that up here")
    return said
