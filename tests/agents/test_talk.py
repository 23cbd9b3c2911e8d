"""One script is one conversation, whichever wire it runs over."""

import httpx
import pytest

from fixtures.agent import Agent, RefusedError
from fixtures.agents.chat import ChatAgent
from fixtures.agents.responses import ResponsesAgent
from fixtures.provider.server import Provider, serve
from tests.agents.sessions import PROMPTS, SCRIPTS, conversation, run

SUMMARIZED = {"type": "adaptive", "display": "summarized"}


def _anthropic(client, url):
    return Agent(client, run, session="s-1", url=f"{url}/v1/messages", thinking=SUMMARIZED)


def _chat(client, url, **more):
    return ChatAgent(client, run, session="s-1", url=f"{url}/v1/chat/completions", thinking=True, **more)


def _responses(client, url, **more):
    return ResponsesAgent(client, run, session="s-1", url=f"{url}/v1/responses", thinking=True, **more)


CLAUDE = "anthropic/claude-opus-5-5"
AGENTS = {
    "messages": _anthropic,
    "chat": lambda client, url: _chat(client, url, model="deepseek-v4-pro"),
    "chat, behind a gateway": lambda client, url: _chat(client, url, model=CLAUDE),
    "responses": _responses,
    "responses, stored": lambda client, url: _responses(client, url, stored=True),
    "responses, instructions": lambda client, url: _responses(client, url, instructions=True),
    "responses, older model": lambda client, url: _responses(client, url, model="gpt-5.5"),
    "responses, behind a gateway": lambda client, url: _responses(client, url, model=CLAUDE),
}


def talked(name, *prompts):
    """Return the agent and the provider after a conversation."""
    provider = Provider(SCRIPTS, now=lambda: 0.0)
    with serve(provider) as running, httpx.Client(trust_env=False, timeout=30) as client:
        agent = AGENTS[name](client, running.url)
        said = [agent.ask(prompt) for prompt in prompts]
    return agent, provider, said


EXPECTED = [
    ("user", "Please build. SCENARIO:build"),
    ("thinking", "Look first."),
    ("assistant", "Reading."),
    ("call", "run", '{"cmd": "cat a"}'),
    ("call", "run", '{"cmd": "cat \\u00e9"}'),
    ("result", 'run: {"cmd": "cat a"}'),
    ("result", 'run: {"cmd": "cat é"}'),
    ("call", "run", '{"cmd": "make"}'),
    ("result", 'run: {"cmd": "make"}'),
    ("thinking", "All is well."),
    ("assistant", "Built."),
    ("user", "And now? SCENARIO:more"),
    ("assistant", "That was all."),
]


@pytest.mark.parametrize("name", AGENTS)
def test_one_script_is_one_conversation(name):
    agent, provider, said = talked(name, *PROMPTS)
    assert said == ["Built.", "That was all."]
    assert conversation(agent) == EXPECTED
    assert [(seen.status, seen.rule, seen.scenario, seen.step) for seen in provider.exchanges] == [
        (200, None, "build", 0),
        (200, None, "build", 1),
        (200, None, "build", 2),
        (200, None, "more", 0),
    ]
    assert {seen.wire for seen in provider.exchanges} == {name.split(",")[0]}
    assert agent.requests == 4
    assert not any(seen.dropped for seen in provider.exchanges)


@pytest.mark.parametrize("name", AGENTS)
def test_a_custom_tool_in_a_namespace_is_called_on_every_wire(name):
    agent, _, said = talked(name, "SCENARIO:special")
    assert said == ["Noted."]
    assert conversation(agent)[1:3] == [
        ("call", "notes__exec", '{"input": "plain text"}'),
        ("result", 'notes__exec: {"input": "plain text"}'),
    ]


@pytest.mark.parametrize("script", ["breaks", "refused"])
@pytest.mark.parametrize("name", AGENTS)
def test_an_error_is_an_error_on_every_wire(name, script):
    with pytest.raises(RefusedError, match=r"Too busy|No\."):
        talked(name, f"SCENARIO:{script}")


@pytest.mark.parametrize("name", AGENTS)
def test_a_cut_stream_breaks_on_every_wire(name):
    with pytest.raises(httpx.RemoteProtocolError):
        talked(name, "SCENARIO:cut")


@pytest.mark.parametrize("name", AGENTS)
def test_a_growing_history_extends_what_was_sent_before(name):
    """So the provider's cache reads: an agent that changed its history would show here."""
    _, provider, _ = talked(name, *PROMPTS)
    bodies = [seen.body for seen in provider.exchanges]
    field = "messages" if "messages" in bodies[0] else "input"
    if name == "responses, stored":
        assert [len(body[field]) for body in bodies] == [2, 2, 1, 1]
        assert [body.get("previous_response_id") is None for body in bodies] == [True, False, False, False]
        return
    before, after = bodies[-2][field], bodies[-1][field]
    # The last message of the messages wire carries the cache marker, so its form moves.
    kept = len(before) - (name == "messages")
    assert after[:kept] == before[:kept]
