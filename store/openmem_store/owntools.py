"""Own how a tool of ours is told from any other, whatever a client puts before its name. Pure.

Claude Code and Codex call one `mcp__openmem__smart_compact_search`, OpenCode `openmem_smart_compact_search`,
others `openmem.smart_compact_search` or `openmem/smart_compact_search`.
"""

import re

PREFIX = "smart_compact_"

_OWN = re.compile(rf"(?:\A|[^A-Za-z0-9]){PREFIX}(?:(?!__)[A-Za-z0-9_-])*\Z")
"""The last part of a name; `__` and every other sign but these end a part."""


def is_own(name: str | None) -> bool:
    """Return whether a tool's name, None where it is not known, is one of ours: its answers are echoes of the store."""
    return name is not None and PREFIX in name and _OWN.search(name) is not None
