"""An agent behind a proxy that its owner already has: one that signs every connection itself, as a company's does."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openmem_addon.commands import probe
from process import REPOSITORY, STARTUP_S, environment

from fixtures.provider.scenario import Step
from fixtures.provider.server import Provider, serve

SID = "5f0c1d7e-0000-4000-8000-0000000c4a17"

ASK = f"""
import httpx, os, ssl, sys
trust = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
body = {{"model": "claude-opus-5-5", "max_tokens": 100, "messages": [{{"role": "user", "content": "SCENARIO:hello"}}]}}
headers = {{"x-api-key": "not-a-key", "anthropic-version": "2023-06-01", "x-claude-code-session-id": "{SID}"}}
with httpx.Client(verify=trust, timeout=60) as client:
    sys.stdout.write(client.post("https://api.anthropic.com/v1/messages", json=body, headers=headers).text)
"""
"""An agent: it knows its environment and nothing else."""


@contextmanager
def company_proxy(folder: Path, provider_port: int) -> Iterator[tuple[str, Path]]:
    """Run a proxy with a certificate authority of its own; yields its address and that authority."""
    port = probe.free_port("127.0.0.1")
    command = [
        *(sys.executable, str(Path(sys.executable).with_name("mitmdump")), "-q"),
        *("--listen-host", "127.0.0.1", "--listen-port", str(port)),
        *("--set", f"confdir={folder}", "--set", "connection_strategy=lazy"),
        *("-s", str(REPOSITORY / "tests" / "redirect.py"), "--set", f"redirect_port={provider_port}"),
    ]
    with subprocess.Popen(command) as process:
        try:
            deadline = time.monotonic() + STARTUP_S
            while not _listens(port):
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}", folder / "mitmproxy-ca-cert.pem"
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def test_an_inherited_proxy_is_gone_through_and_what_its_owner_trusts_is_trusted(tmp_path: Path) -> None:
    """By our proxy and by the agent, whatever client the owner named the company's certificate for."""
    provider = Provider({"hello": (Step(text="Good morning."),)})
    with serve(provider) as running, company_proxy(tmp_path / "company", running.port) as (address, authority):
        inherited = {name: value for name, value in os.environ.items() if not name.upper().endswith("_PROXY")}
        environ = {
            **inherited,
            **environment(tmp_path / "state"),
            "HTTPS_PROXY": address,
            "CODEX_CA_CERTIFICATE": str(authority),
        }
        for name in ("HTTP_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
            environ.pop(name, None)
        words = ["run", "--own-proxy", "--", sys.executable, "-c", ASK]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "openmem_addon.commands.cli", *words],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["content"][0]["text"] == "Good morning."
    assert [exchange.status for exchange in provider.exchanges] == [200]
