"""Own what differs between the agents we launch: the program, and how a base URL is told to it."""

from collections.abc import Callable, Mapping

import msgspec


class Endpoint(msgspec.Struct, frozen=True):
    """A provider that an agent can be pointed away from by a base URL."""

    variable: str
    """Environment variable of the base URL, as a user may have set it."""
    default: str
    """The base URL where nothing is set, with the path that this agent's base URLs have."""


Told = tuple[dict[str, str], tuple[str, ...]]
"""What tells an agent its base URLs: environment variables, and words before its own arguments."""


def _by_environment(urls: Mapping[str, str]) -> Told:
    return dict(urls), ()


def _by_codex_setting(urls: Mapping[str, str]) -> Told:
    """Codex reads its base URL from its configuration; a word on the command line goes before the file."""
    return {}, ("-c", f'openai_base_url="{urls["OPENAI_BASE_URL"]}"')


class Client(msgspec.Struct, frozen=True):
    """A coding agent that has a launcher of its own, or any program of `run`."""

    title: str
    command: str
    install: str
    """What to type where it is missing."""
    hosts: tuple[str, ...]
    """Providers it speaks to where no base URL is set."""
    endpoints: tuple[Endpoint, ...]
    trusts: str = "NODE_EXTRA_CA_CERTS"
    """Variable of the certificate that is enough for it; a launcher sets all there are."""
    places: tuple[str, ...] = ()
    """Where its own installer puts it, below the home directory, when that is not on PATH."""
    tell: Callable[[Mapping[str, str]], Told] = _by_environment
    """Takes base URLs by the variable of their endpoint."""


_ANTHROPIC = Endpoint("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
_ANTHROPIC_V1 = Endpoint("ANTHROPIC_BASE_URL", "https://api.anthropic.com/v1")
_OPENAI = Endpoint("OPENAI_BASE_URL", "https://api.openai.com/v1")

CLIENTS = {
    "claude": Client(
        title="Claude Code",
        command="claude",
        install="npm install -g @anthropic-ai/claude-code",
        hosts=("api.anthropic.com",),
        endpoints=(_ANTHROPIC,),
        places=(".local/bin/claude", ".claude/local/claude"),
    ),
    "codex": Client(
        title="Codex",
        command="codex",
        install="npm install -g @openai/codex",
        hosts=("api.openai.com", "chatgpt.com"),
        endpoints=(_OPENAI,),
        trusts="CODEX_CA_CERTIFICATE",
        places=(".local/bin/codex",),
        tell=_by_codex_setting,
    ),
    "opencode": Client(
        title="OpenCode",
        command="opencode",
        install="npm install -g opencode-ai",
        hosts=("api.anthropic.com", "api.openai.com"),
        endpoints=(_ANTHROPIC_V1, _OPENAI),
        places=(".opencode/bin/opencode",),
    ),
}

ANY = Client(
    title="The program",
    command="",
    install="",
    hosts=("api.anthropic.com",),
    endpoints=(_ANTHROPIC, _OPENAI),
)
"""A program of `run`: both vendors' libraries read these variables."""
