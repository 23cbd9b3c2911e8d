"""Time from starting the search server to its first answered `tools/list`, against the SDK's bare server.

Both are processes that a host starts and speaks to over stdio: initialize, initialized, tools/list.
The bare server offers one tool and imports nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import ratio

ROOT = Path(__file__).parent.parent

BARE = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("bare")
@server.tool()
def search(query: str) -> str:
    return query
server.run("stdio")
"""

OURS = "from openmem_store.reader.server import main; main()"

MESSAGES = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def listed(program: str, environment: dict[str, str]) -> list[str]:
    """Start a server, return the names of its tools, and end it. Raises ValueError when it does not answer."""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in MESSAGES:
            server.stdin.write(json.dumps(message).encode() + b"\n")
            server.stdin.flush()
            if "id" in message:
                answer = json.loads(server.stdout.readline())
        server.kill()
    return [tool["name"] for tool in answer["result"]["tools"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "OPENMEM_STATE_DIR": folder,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "store"), str(ROOT / "addon"))),
        }
        ours, bare = partial(listed, OURS, environment), partial(listed, BARE, environment)
        print(f"ours offers {', '.join(ours())}; bare {', '.join(bare())}")
        times = ratio.in_turn(ours, bare, given.repeats)
    print(ratio.line("start to first tools/list / the SDK's bare server", *times, bound=1.3))


if __name__ == "__main__":
    main()
