"""Own `sessions/<sid>.trim.json`: the truth of every thread's view, kept across restarts. Private to the proxy."""

import msgspec
from openmem_store.layout import Layout, replace

from .core.view import Sample, Thread

VERSION = 1

MOST_THREADS = 512
"""Threads one session remembers, those used last; one is a few hundred bytes, written with each request."""


class TrimState(msgspec.Struct):
    """What a session knows of its threads. Changed only on the event loop."""

    version: int = VERSION
    threads: dict[str, Thread] = {}
    """By lane and first row, `<lane>/<fingerprint>`; the one used last is last."""
    samples: dict[str, dict[str, Sample]] = {}
    """By thread key and model: what calibrates the estimate."""
    latest: dict[str, str] = {}
    """Key of the thread each lane used last."""

    def publish(self, key: str, thread: Thread) -> None:
        """Make a thread's new state the one in force."""
        self.threads.pop(key, None)
        self.threads[key] = thread
        self.latest[key.partition("/")[0]] = key
        while len(self.threads) > MOST_THREADS:
            oldest = next(iter(self.threads))
            del self.threads[oldest]
            self.samples.pop(oldest, None)

    def restore(self, key: str, thread: Thread | None) -> None:
        """Take back a publication that could not be made durable."""
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
