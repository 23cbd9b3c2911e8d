"""Own `sessions/<sid>.trim.json`: the truth of every thread's view, kept across restarts. Private to the proxy."""

import os

import msgspec
from openmem_store.layout import Layout, replace

from .core.view import Sample, Tail, Thread

VERSION = 1

SUFFIX = ".trim.json"

MOST_THREADS = 512
"""Threads one session remembers, those used last; one is a few hundred bytes, written with each request."""

MOST_TAILS = 64
"""Kept responses one session remembers; a client continues its newest."""


class TrimState(msgspec.Struct):
    """What a session knows of its threads. Changed only on the event loop."""

    version: int = VERSION
    threads: dict[str, Thread] = {}
    """By lane and first row, `<lane>/<fingerprint>`; the one used last is last."""
    samples: dict[str, dict[str, Sample]] = {}
    """By thread key and model: what calibrates the estimate."""
    latest: dict[str, str] = {}
    """Key of the thread each lane used last."""
    tails: dict[str, Tail] = {}
    """By response id, of the responses that the provider keeps."""
    told_untrimmed: bool = False
    """A person was told that this session outgrew its threshold and that its agent cannot look."""

    def publish(self, key: str, thread: Thread) -> None:
        """Make a thread's new state the one in force."""
        self.threads.pop(key, None)
        self.threads[key] = thread
        self.latest[key.partition("/")[0]] = key
        while len(self.threads) > MOST_THREADS:
            oldest = next(iter(self.threads))
            del self.threads[oldest]
            self.samples.pop(oldest, None)

    def restore(self, key: str, thread: Thread | None, latest: dict[str, str]) -> None:
        """Take back a publication that could not be made durable; `latest` is what it was before."""
        self.latest = latest
        if thread is None:
            self.threads.pop(key, None)
        else:
            self.threads[key] = thread

    def find(self, lane: str, root: str) -> str | None:
        """Return the key of the thread that begins with `root`, of this lane before any other."""
        own = f"{lane}/{root}"
        if own in self.threads:
            return own
        return next((key for key in reversed(self.threads) if key.endswith(f"/{root}")), None)

    def sample(self, key: str, model: str | None) -> Sample | None:
        return self.samples.get(key, {}).get(model or "")

    def calibrate(self, key: str, model: str | None, sample: Sample) -> None:
        self.samples.setdefault(key, {})[model or ""] = sample

    def keep_tail(self, response: str, tail: Tail) -> None:
        self.tails[response] = tail
        while len(self.tails) > MOST_TAILS:
            del self.tails[next(iter(self.tails))]

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


_STATE = msgspec.json.Decoder(TrimState)


def read(layout: Layout, sid: str) -> TrimState:
    """Return a session's state; a new one where there is none.

    Raises OSError where the file cannot be read and ValueError where it is not one of ours:
    the caller must not take a thread for new whose view is merely unreadable.
    """
    try:
        content = layout.trim(sid).read_bytes()
    except FileNotFoundError:
        return TrimState()
    state = _STATE.decode(content)
    if state.version != VERSION:
        raise ValueError(f"trim state has version {state.version}, this program knows {VERSION}")
    return state


def set_aside(layout: Layout, sid: str) -> None:
    """Rename a state that cannot be understood; nothing of a session is deleted."""
    path = layout.trim(sid)
    path.rename(path.with_name(f"{path.name}.unreadable"))


def write(layout: Layout, sid: str, encoded: bytes) -> None:
    """Replace a session's state atomically. Raises OSError."""
    replace(layout.trim(sid), encoded)


class Elsewhere:
    """The threads of every session on disk that a view ever changed, to recognise a fork under a new session id.

    Used by one thread at a time.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[str, tuple[tuple[int, int], dict[str, Thread]]] = {}
        """By file name: its time of change and size, and its changed threads."""

    def threads(self, *, besides: str) -> list[tuple[str, str, Thread]]:
        """Return session id, key and thread of every changed thread but those of one session, newest file first."""
        self._refresh()
        newest = sorted(self._known.items(), key=lambda known: known[1][0], reverse=True)
        return [
            (sid, key, thread)
            for name, (_, threads) in newest
            if (sid := name.removesuffix(SUFFIX)) != besides
            for key, thread in threads.items()
        ]

    def _refresh(self) -> None:
        found: dict[str, tuple[int, int]] = {}
        with os.scandir(self._layout.sessions) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                    stat = entry.stat()
                    found[entry.name] = (stat.st_mtime_ns, stat.st_size)
        for gone in self._known.keys() - found.keys():
            del self._known[gone]
        for name, stamp in found.items():
            if name not in self._known or self._known[name][0] != stamp:
                self._known[name] = (stamp, self._changed(name))

    def _changed(self, name: str) -> dict[str, Thread]:
        try:
            state = read(self._layout, name.removesuffix(SUFFIX))
        except (OSError, ValueError):
            return {}  # its own session's requests report it
        return {key: thread for key, thread in state.threads.items() if thread.changed()}
