"""Own the command line: which commands there are, and who carries each out.

Each command's module is imported only when it runs: `status` must not wait for what the proxy needs.
"""

import difflib
import importlib
import os
import select
import sys
from collections.abc import Sequence

import msgspec
from openmem_store import version


class Command(msgspec.Struct, frozen=True):
    module: str
    """Its `main(name, words)` returns the exit code."""
    help: str


CLOSED = 141
"""Exit code of a command whose output was closed while it wrote: a shell's for SIGPIPE."""

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended: a shell's for SIGINT."""

COMMANDS = {
    "proxy": Command("start", "start the proxy; more words go to mitmdump (the default without a command)"),
    "web": Command("start", "the same with mitmproxy's web page; more words go to mitmweb"),
    "claude": Command("launch", "run Claude Code through the proxy, which is started if none runs"),
    "codex": Command("launch", "run Codex the same way"),
    "opencode": Command("launch", "run OpenCode the same way"),
    "run": Command("launch", "the same with any program: run -- COMMAND [arguments]"),
    "demo": Command("demo", "show the whole line at work, without key or network, in half a minute"),
    "mcp": Command("mcp", "the search tools as an MCP server on standard input and output"),
    "install": Command("install", "register the search tools and the hooks with the agents: install --help"),
    "uninstall": Command("install", "take that back, without a trace"),
    "import": Command("imports", "store what Claude Code and Codex keep of their own sessions"),
    "estimate": Command("estimate", "replay past sessions with and without trimming: estimate --help"),
    "handoff": Command("handoff", "print the prompt with which another agent goes on with a session: handoff SESSION"),
    "off": Command("power", "from the next request on, remove nothing new: off --help"),
    "on": Command("power", "go back"),
    "status": Command("status", "say what runs, what is stored, and what trimming saved: status --help"),
    "doctor": Command("doctor", "look for what is wrong here, and say what mends it"),
    "why": Command("why", "say of a session what left its prompt and what was looked up again: why SESSION"),
    "forget": Command("forget", "delete stored sessions: forget SESSION ..., or forget --all"),
    "embed": Command("embed", "make the vectors that are missing, of every stored session or of one"),
}
"""`test` belongs to run.sh: it needs the checkout's development tools."""


def main(words: Sequence[str] | None = None) -> int:
    """Carry out one command and return its exit code."""
    name, *rest = (sys.argv[1:] if words is None else list(words)) or ["proxy"]
    if name in ("--help", "-h", "help"):
        print(usage())
        return 0
    if name == "--version":
        print(f"openmem-context {version.VERSION} (code {version.code_hash()})")
        return 0
    if name.startswith("-"):  # an argument of the command that none means
        name, rest = "proxy", [name, *rest]
    command = COMMANDS.get(name)
    if command is None:
        print(f"openmem-context: {_unknown(name)}", file=sys.stderr)
        return 2
    module = importlib.import_module(f"openmem_addon.commands.{command.module}")
    try:
        code = int(module.main(name, rest))
        sys.stdout.flush()
    except KeyboardInterrupt:  # at a question, or while something is read: the person knows
        print()
        return INTERRUPTED
    except BrokenPipeError:
        if not _nobody_reads():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered goes nowhere
        return CLOSED
    return code


def _unknown(name: str) -> str:
    names = (*COMMANDS, "test")
    near = difflib.get_close_matches(name, names, 1)
    return f"no command {name!r}{f' (did you mean {near[0]!r}?)' if near else ''}; there are: {', '.join(names)}"


def _nobody_reads() -> bool:
    """Say whether standard output was closed at its other end, as `| head` does when it has seen enough."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, event in poll.poll(0))


def usage() -> str:
    rows = {
        **{name: command.help for name, command in COMMANDS.items()},
        "test": "install what the tests need, run them",
    }
    lines = "\n".join(f"  {name:<10} {text}" for name, text in rows.items())
    return (
        "Keeps a coding agent's prompt small without losing a fact.\n\n"
        f"usage: ./run.sh [command] [arguments]\n\n{lines}\n\n"
        "  --help, --version; after a command, --help says what it takes\n\n"
        "Settings are environment variables and a file; the README lists them."
    )


if __name__ == "__main__":
    sys.exit(main())
