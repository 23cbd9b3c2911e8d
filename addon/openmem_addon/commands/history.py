"""Own a session as an agent's own file tells it: its requests, in the wire format they had."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from openmem_addon.commands.pricing import Counts
from openmem_addon.core import adapter
from openmem_addon.core.adapter import Route


class Request(msgspec.Struct, frozen=True):
    """What one request sent; the items of two requests share their bytes."""

    items: tuple[bytes, ...]
    model: str | None
    counted: Counts | None = None
    """What the provider counted, where the file says so."""


class History(msgspec.Struct, frozen=True):
    """One thread of a session."""

    agent: str
    """As the hooks register it."""
    sid: str
    """As the agent names the session; a subagent's thread has its parent's."""
    cwd: str | None
    began: str
    """ISO 8601 UTC without fractions."""
    wire: str
    """Path of the requests."""
    array: str
    """The member of a body that holds the items."""
    head: bytes
    """The other members of a body, without braces: system, tools."""
    requests: tuple[Request, ...]
    replies: tuple[bytes, ...] = ()
    """Items after those of the last request: its answer."""

    @property
    def route(self) -> Route:
        found = adapter.for_path(self.wire)
        assert found is not None
        return found

    def body(self, request: Request, *, more: tuple[bytes, ...] = ()) -> bytes:
        """Return a request as it was sent, `more` items behind its own."""
        members = [b'"model":' + json.dumps(request.model).encode()] if request.model else []
        members += [self.head] if self.head else []
        members.append(b'"%s":[' % self.array.encode() + b",".join((*request.items, *more)) + b"]")
        return b"{" + b",".join(members) + b"}"

    def whole(self) -> Iterator[bytes]:
        """Yield bodies that hold every item there is: the last of each run of requests that grew, and the answer."""
        for place, request in enumerate(self.requests):
            following = self.requests[place + 1] if place + 1 < len(self.requests) else None
            if following is None:
                yield self.body(request, more=self.replies)
            elif following.items[: len(request.items)] != request.items:
                yield self.body(request)


class Source(msgspec.Struct, frozen=True):
    """Where an agent keeps its files, and who reads one."""

    title: str
    folder: Callable[[Path], Path]
    """Takes the agent's own folder."""
    pattern: str
    read: Callable[[Path], list[History]]
    """Raises ValueError for a file that is none of the agent's, OSError for one that cannot be read."""


def moment(stamp: object) -> str:
    """Return a timestamp as the store writes it: whole seconds, UTC."""
    text = str(stamp)
    return f"{text[:19]}Z" if len(text) >= 20 and text[10:11] == "T" else "1970-01-01T00:00:00Z"


def lines(path: Path) -> Iterator[dict[str, object]]:
    """Yield the objects of a file, a line each; a last line that an agent is still writing is left out."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                value = msgspec.json.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                if not line.endswith(b"\n"):
                    return
                raise ValueError(f"{path.name}: line {number} is not JSON") from None
            if isinstance(value, dict):
                yield value
