"""Serve the store over MCP on stdio: tell a host of the tools, turn every failure into one short message.

stdout carries JSON-RPC only: the SDK points it at stderr while serving, and nothing here prints. The
retention sweep at start and the flag beside a session whose index is damaged are all that this process
writes.
"""

import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import ValidationError

from openmem_store import version
from openmem_store.layout import Layout
from openmem_store.reader import stdin, texts
from openmem_store.reader.answers import RefusedError
from openmem_store.reader.tools import Tools
from openmem_store.rows import storable
from openmem_store.settings import Settings, SettingsError, load

NAME = "openmem"

_READS = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


class Server(MCPServer[Any]):
    """The SDK's server, with failures said in our words."""

    def __init__(self, tools: Tools) -> None:
        self._offered = {tool.name: tool for tool in map(_offer, tools.offered())}
        super().__init__(
            NAME,
            title="OpenMem: the conversation store",
            instructions=texts.INSTRUCTIONS,
            version=version.VERSION,
            tools=list(self._offered.values()),
            # Below WARNING the SDK logs what a failed call said, which may quote a query.
            log_level="WARNING",
        )

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Raises ToolError with a message for a model: never a path, never a stack."""
        name, arguments = _whole(name), _whole(arguments)
        tool = self._offered.get(name)
        if tool is None:
            raise ToolError(f"there is no tool {name!r}; there are {', '.join(self._offered)}")
        known = tool.parameters["properties"]
        for unknown in arguments.keys() - known.keys():
            raise ToolError(f"{unknown}: no such argument; {name} takes {', '.join(known)}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            raise ToolError(_said(error, known)) from error.__cause__


def main() -> None:
    """Serve until stdin ends."""
    try:
        loaded = load(os.environ)
    except SettingsError as error:
        sys.exit(f"openmem-context-mcp: {error}")
    for warning in loaded.warnings:
        print(f"openmem-context-mcp: {warning}", file=sys.stderr)
    layout = Layout(loaded.settings.root)
    threading.Thread(target=_sweep, args=(layout, loaded.settings), daemon=True).start()
    sys.stdin = stdin.opened(sys.stdin.buffer)
    tools = Tools(layout, _here(), loaded.settings, keeps=True)
    try:
        Server(tools).run("stdio")
    finally:
        tools.close()


def _here() -> Path:
    """Return the agent's folder; one that was deleted under it by the name it had."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return Path(os.environ.get("PWD") or "/")


def _offer(function: Any) -> Tool:
    tool = Tool.from_function(
        function, description=texts.TOOLS[function.__name__], annotations=_READS, structured_output=False
    )
    # The schema then says what `call_tool` does: a misspelt argument is refused, not ignored.
    tool.parameters["additionalProperties"] = False
    return tool


def _whole[T](value: T) -> T:
    """Return a JSON value whose texts hold U+FFFD for half a surrogate pair, as stored text does."""
    match value:
        case str():
            return storable(value)
        case list():
            return [_whole(each) for each in value]  # type: ignore[return-value]
        case dict():
            return {_whole(name): _whole(each) for name, each in value.items()}  # type: ignore[return-value]
        case _:
            return value


def _said(error: ToolError, known: dict[str, Any]) -> str:
    match error.__cause__:
        case RefusedError() as refused:
            return str(refused)
        case ValidationError() as invalid:
            return _arguments(invalid, known)
        case OSError() as refused if refused.strerror:
            print(f"openmem-context-mcp: {_place(refused)}: {refused.strerror}", file=sys.stderr)
            return f"the system refused what this call needs ({refused.strerror}); other calls may still work"
        case BaseException() as crash:
            print(f"openmem-context-mcp: {_place(crash)}", file=sys.stderr)
            return f"the call failed inside the server ({_place(crash)}); nothing was changed, other calls still work"
        case None:
            return str(error)


def _place(error: BaseException) -> str:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"


def _arguments(invalid: ValidationError, known: dict[str, Any]) -> str:
    """Say which argument is wrong, once, and what it may be: pydantic lists every branch of a union."""
    wrong: dict[str, str] = {}
    for each in invalid.errors(include_url=False, include_context=False, include_input=False):
        wrong.setdefault(str(each["loc"][0]), each["msg"])
    return "; ".join(f"{field}: {said}. {known[field].get('description', '')}" for field, said in wrong.items())


def _sweep(layout: Layout, settings: Settings) -> None:
    """Delete what is too old, at most once a day; a failure is one line and no more."""
    from openmem_store import retention
    from openmem_store.reader import scratch

    try:
        scratch.clear(now=time.time())
        retention.sweep(layout, ttl_days=settings.ttl_days, now=time.time())
    except Exception as error:
        print(f"openmem-context-mcp: retention failed: {type(error).__name__}", file=sys.stderr)


if __name__ == "__main__":
    main()
