"""Own a session as an agent's own file tells it: its requests, in the wire format they had."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from openmem_addon.commands.pricing import Counts
from openmem_addon.core import adapter
from openmem_addon.core.adapter import Route


class Request(msgspec.Struct, frozen=True):
    """What one request sent; the items of two requests share their bytes."""

    items: tuple[bytes, ...]
    model: str | None
    counted: Counts | None = None
    """What the provider counted, where the file says so."""
    left: tuple[bytes, ...] = ()
    """What was said after it and sent by no request: the conversation went another way from an earlier item."""


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
    broken: int = 0
    """Lines of its file that could not be read."""

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
            elif request.left or following.items[: len(request.items)] != request.items:
                yield self.body(request, more=request.left)


class Source(msgspec.Struct, frozen=True):
    """Where an agent keeps its files, and who reads one."""

    title: str
    folder: Callable[[Path], Path]
    """Takes the agent's own folder."""
    patterns: tuple[str, ...]
    read: Callable[[Path], list[History]]
    """Raises ValueError for a file that is none of the agent's, OSError for one that cannot be read."""

    def histories(self, path: Path) -> list[History]:
        """Read one file. Raises as `read`, and ValueError where a line has a form that no version has so far."""
        try:
            return self.read(path)
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError("its lines have a form that is not known") from error


def moment(stamp: object) -> str:
    """Return a timestamp as the store writes it: whole seconds, UTC."""
    text = str(stamp)
    return f"{text[:19]}Z" if len(text) >= 20 and text[10:11] == "T" else "1970-01-01T00:00:00Z"


class Lines(msgspec.Struct, frozen=True):
    """The objects of a file, a line each."""

    objects: list[dict[str, object]]
    broken: tuple[int, ...] = ()
    """Numbers of the lines that are not JSON: where an agent or the machine was stopped while it wrote one."""

    def complain(self, path: Path) -> None:
        """Raise ValueError for a file in which nothing could be used, if a line of it is broken."""
        if self.broken:
            raise ValueError(f"{path.name}: line {self.broken[0]} is not JSON")


def lines(path: Path) -> Lines:
    """Read a file; a last line that an agent is still writing is left out. Raises OSError, ValueError."""
    objects: list[dict[str, object]] = []
    broken: list[int] = []
    with path.open("rb") as plain, _opened(path, plain) as file:
        for number, line in _numbered(path, file):
            try:
                value = _decoded(line)
            except (ValueError, RecursionError):
                if line.endswith(b"\n") and line.strip():
                    broken.append(number)
                continue
            if isinstance(value, dict):
                objects.append(value)
    return Lines(objects, tuple(broken))


def _decoded(line: bytes) -> object:
    """Return a line's value. Raises ValueError, RecursionError.

    The fast decoder refuses half of a surrogate pair, which a client writes where it cut an emoji in two.
    """
    try:
        return msgspec.json.decode(line)
    except msgspec.MsgspecError:
        return json.loads(line)


def _opened(path: Path, plain: BinaryIO) -> BinaryIO:
    """Return what a file holds: Codex compresses some of its rollouts."""
    return cast(BinaryIO, zstd.ZstdFile(plain)) if path.suffix == ".zst" else plain


def _numbered(path: Path, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    try:
        yield from enumerate(file, 1)
    except (zstd.ZstdError, EOFError):
        raise ValueError(f"{path.name} cannot be decompressed") from None
