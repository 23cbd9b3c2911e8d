"""The page of mitmproxy over the addon, with real parts: what a person sees of a request that was trimmed."""

import ssl
from pathlib import Path
from typing import Any

import httpx
from openmem_addon.commands import probe
from pages import model, prose, tool
from process import Proxy

from fixtures.agent import Agent
from fixtures.provider.server import Provider, serve


def test_mitmweb_shows_what_left_a_prompt_and_the_note_in_its_place(tmp_path: Path) -> None:
    page = f"http://127.0.0.1:{(port := probe.free_port('127.0.0.1'))}"
    words = ["--set", f"web_port={port}", "--set", "web_open_browser=false", "--set", "web_password=look"]
    provider = Provider({"turn": model})
    with serve(provider) as running:
        settings = {"CONTEXT_TRIM_TOKENS": "12000"}
        proxy = Proxy(tmp_path, running.port, settings, tool="mitmweb", words=words)
        proxy.start()
        try:
            trust = ssl.create_default_context(cafile=str(proxy.certificate))
            with httpx.Client(proxy=httpx.Proxy(proxy.url), verify=trust, timeout=60, trust_env=False) as client:
                Agent(client, tool, session="s-web").ask(f"SCENARIO:turn Please read the pages. {prose(1, 36)}")
            with httpx.Client(base_url=page, headers={"authorization": "Bearer look"}, trust_env=False) as client:
                flows: list[dict[str, Any]] = client.get("/flows").json()
                views = [client.get(f"/flows/{flow['id']}/request/content/Auto.json").json() for flow in flows]
        finally:
            proxy.stop()
    asked = [view for flow, view in zip(flows, views, strict=True) if flow["request"]["method"] == "POST"]
    assert {view["view_name"] for view in asked} == {"OpenMem"}
    last = asked[-1]["text"].splitlines()
    assert "system: the standing instruction was added" in last
    assert any(line.startswith("    | [openmem: continuing session s-web; ") for line in last)
    assert any(": removed, " in line for line in last)
