import json
import subprocess
import sys

import pytest
from openmem_addon.commands import mcp


def test_words_it_does_not_take_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert mcp.main("mcp", ["--port", "9"]) == 2
    assert capsys.readouterr().err == "openmem-context: mcp takes no arguments\n"


@pytest.mark.usefixtures("empty_home")
def test_standard_output_carries_the_protocol_alone() -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "openmem_addon.commands.cli", "mcp"],
        input=json.dumps(hello) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in answers] == [1]
    assert answers[0]["result"]["serverInfo"]["name"] == "openmem"
