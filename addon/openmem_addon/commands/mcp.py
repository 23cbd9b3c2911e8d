"""Own `mcp`: hand the process over to the reader's server."""

import sys
from collections.abc import Sequence

HELP = """\
usage: ./run.sh mcp

Serves the search tools on standard input and output, for an agent to start: `./run.sh install` registers it. It reads
the store and writes nothing to it but the daily sweep of what is older than CONTEXT_STORE_TTL_DAYS."""


def main(name: str, words: Sequence[str]) -> int:
    """Serve the search tools on standard input and output until the client leaves."""
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    if words:
        print(f"openmem-context: {name} takes no arguments", file=sys.stderr)
        return 2
    from openmem_store.reader.server import main as serve  # takes a second to import: not before it is needed

    serve()
    return 0
