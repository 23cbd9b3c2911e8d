"""The real Claude Code, headless, through `./run.sh claude` on the strict fake provider."""

import json
import os
import signal
import subprocess
from pathlib import Path

import apsw
import pytest
from fixtures.provider.exchange import Exchange
from fixtures.provider.scenario import Asked, Call, Step
from fixtures.provider.server import Provider, serve
from openmem_addon.commands import probe
from openmem_addon.core import anthropic
from process import REPOSITORY, environment

pytestmark = pytest.mark.agent

CLAUDE = os.environ.get("OPENMEM_TEST_CLAUDE", "")
SEARCH = "mcp__openmem__smart_compact_search"
THRESHOLD = 30_000
PAGES = 14
SECRET = "The blue ledger of the harbour office has number HL-7731."
PATIENCE_S = 240


class Session:
    """One finished run of the client, and what it left behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = probe.free_port("127.0.0.1")
        self.killed: list[int] = []
        self.provider = Provider({"pages": self.model})
        self.result: subprocess.CompletedProcess[str] | None = None

    def model(self, asked: Asked) -> Step:
        """Read page after page; have the proxy killed in the middle; search for what left; answer with it."""
        if asked.index == PAGES // 2 and not self.killed:
            alive = probe.health("127.0.0.1", self.port)
            assert alive is not None
            self.killed.append(alive.pid)
            os.kill(alive.pid, signal.SIGKILL)
        if asked.index < PAGES:
            command = f"cat pages/{asked.index}.txt"
            return Step(
                thinking=f"Page {asked.index} is next.",
                text=f"Reading page {asked.index}.",
                tools=(Call(name="Bash", input={"command": command, "description": "Read one page"}),),
            )
        if asked.index == PAGES:
            query = {"query": "blue ledger harbour office number"}
            return Step(thinking="That page is gone.", tools=(Call(name=SEARCH, input=query),))
        found = "HL-7731" in json.dumps(asked.body["messages"][-1])
        return Step(text="The number is HL-7731." if found else "It was not found.")

    def run(self) -> None:
        pages = self.folder / "work" / "pages"
        pages.mkdir(parents=True)
        for number in range(PAGES):
            lines = [f"Page {number}, line {line}: copper lanterns lean on the orchard wall." for line in range(120)]
            if number == 1:
                lines.insert(60, SECRET)
            (pages / f"{number}.txt").write_text("\n".join(lines))
        home = self.folder / "home"
        home.mkdir()
        state = self.folder / "state"
        server = {
            "type": "stdio",
            "command": str(REPOSITORY / "run.sh"),
            "args": ["mcp"],
            "env": {"OPENMEM_STATE_DIR": str(state)},
            "alwaysLoad": True,
        }
        servers = self.folder / "mcp.json"
        servers.write_text(json.dumps({"mcpServers": {"openmem": server}}))
        with serve(self.provider) as running:
            proxy = ("-s", str(REPOSITORY / "tests" / "redirect.py"), "--set", f"redirect_port={running.port}")
            self.result = subprocess.run(
                [
                    str(REPOSITORY / "run.sh"),
                    *("claude", "--port", str(self.port)),
                    *(word for argument in proxy for word in ("--proxy-arg", argument)),
                    *("-p", "SCENARIO:pages Read every page, then tell me the number of the blue ledger."),
                    *("--output-format", "json", "--dangerously-skip-permissions"),
                    *("--mcp-config", str(servers), "--strict-mcp-config"),
                ],
                cwd=pages.parent,
                env=self.environment(home, state),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
            )

    def environment(self, home: Path, state: Path) -> dict[str, str]:
        values = environment(state, CONTEXT_TRIM_TOKENS=str(THRESHOLD))
        dropped = ("ANTHROPIC_", "CLAUDE_", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
        kept = {name: value for name, value in values.items() if not name.startswith(dropped)}
        return {
            **kept,
            "PATH": f"{Path(CLAUDE).parent}{os.pathsep}{values['PATH']}",
            "HOME": str(home),
            "ANTHROPIC_API_KEY": "sk-ant-not-a-key",
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
        }

    @property
    def main(self) -> list[Exchange]:
        """The requests of the conversation itself, answered."""
        return [exchange for exchange in self.provider.exchanges if exchange.scenario == "pages"]

    def database(self) -> apsw.Connection:
        sessions = list((self.folder / "state" / "context" / "sessions").glob("*.db"))
        assert len(sessions) == 1
        return apsw.Connection(str(sessions[0]), flags=apsw.SQLITE_OPEN_READONLY)

    def log(self) -> str:
        return "".join(path.read_text() for path in (self.folder / "state" / "context" / "logs").glob("*.log"))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    assert CLAUDE, "OPENMEM_TEST_CLAUDE names the client; ./run.sh test installs it"
    session = Session(tmp_path_factory.mktemp("claude"))
    session.run()
    return session


def test_it_finishes_although_its_proxy_was_killed(session: Session):
    assert session.result is not None
    assert session.result.returncode == 0, session.result.stderr
    assert session.killed
    assert "HL-7731" in json.loads(session.result.stdout)["result"]


def test_no_request_was_refused_and_none_failed_open(session: Session):
    refused = [(exchange.rule, exchange.error) for exchange in session.provider.refusals]
    assert refused == []
    assert "fail-open" not in session.log()
    with session.database() as connection:
        assert connection.execute("SELECT count(*) FROM events WHERE kind = 'fail_open'").get == 0


def test_it_called_tools_and_was_trimmed_under_the_threshold(session: Session):
    assert len(session.main) > PAGES
    with session.database() as connection:
        assert int(str(connection.execute("SELECT count(*) FROM events WHERE kind = 'trim'").get)) >= 1
    largest = max(
        sum(exchange.usage[name] for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))
        for exchange in session.main
    )
    assert largest <= THRESHOLD * 1.01


def test_its_session_file_holds_every_message_of_the_last_request(session: Session):
    """What the proxy forwarded last, and with it what the client sent: the pages it dropped are rows too."""
    with session.database() as connection:
        stored = [str(text) for (text,) in connection.execute("SELECT text FROM messages ORDER BY seq")]
    forwarded = anthropic.parse(json.dumps(session.main[-1].body).encode())
    texts = [draft.text for item in forwarded.items if item.stored for draft in item.drafts]
    assert [text for text in texts if text not in stored and not text.startswith("[openmem: ")] == []
    for number in range(PAGES):
        assert any(f"Page {number}, line 119:" in text for text in stored)


def test_its_own_mcp_client_was_answered_from_a_row_that_had_left(session: Session):
    asked = session.main[-1].body["messages"][-1]
    answer = json.dumps(asked)
    assert SECRET in answer
    before = json.dumps(session.main[-2].body["messages"])
    assert SECRET not in before
