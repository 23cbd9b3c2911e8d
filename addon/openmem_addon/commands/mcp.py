"""Own `mcp`: hand the process over to the reader's server."""

import sys
from collections.abc import Sequence


def main(name: str, words: Sequence[str]) -> int:
    """Serve the search tools on standard input and output until the client leaves."""
    if words:
        print(f"openmem-context: {name} takes no arguments", file=sys.stderr)
        return 2
    from openmem_store.reader.server import main as serve  # takes a second to import: not before it is needed

    serve()
    return 0
