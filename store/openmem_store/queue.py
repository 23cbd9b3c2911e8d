"""Own the order of writing: a few threads, serial per session, bounded bytes, an LRU of open files.

Knows nothing of what a job writes. No job waits for another session's.
"""

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import cast

import apsw
import msgspec

from openmem_store.layout import Layout
from openmem_store.schema import UnsupportedSchema
from openmem_store.writer import SessionWriter


class QueueFull(Exception):
    """Too many bytes wait: the job was refused. The session's next request brings its rows again."""


class QueueClosed(Exception):
    """The queue takes no more jobs: the process is ending."""


class _Job(msgspec.Struct, frozen=True):
    run: Callable[[SessionWriter], object]
    future: Future[object]
    size: int


class WriteQueue:
    """Runs jobs on the session's writer, in the order they were given for that session."""

    def __init__(
        self,
        layout: Layout,
        *,
        version: str,
        workers: int = 2,
        max_open: int = 64,
        max_bytes: int = 256 << 20,
        log: Callable[[str], None],
    ) -> None:
        """`version` is each event's writer; `max_open` databases stay open; `max_bytes` of jobs may wait.

        `log` gets one line when the queue first refuses a job, and one per damaged database.
        """
        self._layout = layout
        self._version = version
        self._max_open = max_open
        self._max_bytes = max_bytes
        self._log = log
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[_Job]] = {}
        self._ready: deque[str] = deque()
        self._running: set[str] = set()
        self._writers: OrderedDict[str, SessionWriter] = OrderedDict()
        self._bytes = 0
        self._refusing = False
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"openmem-writer-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def call[T](self, sid: str, fn: Callable[[SessionWriter], T], *, size: int = 0) -> Future[T]:
        """Run `fn` on the writer of `sid`, after all jobs given for it before, and return its future.

        `size`: bytes the job holds in memory. Nothing is raised here: QueueFull, QueueClosed,
        WriterBusy and what `fn` raises reach the future.
        """
        future: Future[T] = Future()
        line = None
        with self._changed:
            if self._closed:
                future.set_exception(QueueClosed("the write queue is closed"))
                return future
            # A job larger than the bound alone must still be storable, so an idle queue takes it.
            if self._bytes and self._bytes + size > self._max_bytes:
                if not self._refusing:
                    self._refusing = True
                    line = f"openmem-context: write queue full, {self._bytes} bytes wait; jobs are refused"
            else:
                self._refusing = False
                self._bytes += size
                job = _Job(fn, cast(Future[object], future), size)
                self._waiting.setdefault(sid, deque()).append(job)
                self._enlist(sid)
                return future
        if line is not None:
            self._log(line)
        future.set_exception(QueueFull("the write queue is full"))
        return future

    def busy(self) -> frozenset[str]:
        """Return the sessions that are open or have jobs waiting; retention leaves them alone."""
        with self._changed:
            return frozenset(self._writers) | frozenset(self._waiting) | frozenset(self._running)

    def close(self, timeout: float = 5.0) -> None:
        """Take no more jobs, finish the waiting ones for at most `timeout` seconds, close every database.

        What is left then is cancelled, with one log line.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            left = [job for jobs in self._waiting.values() for job in jobs]
            self._waiting.clear()
            self._ready.clear()
            idle = [sid for sid in self._writers if sid not in self._running]
            writers = [self._writers.pop(sid) for sid in idle]
        for job in left:
            job.future.cancel()
        if left:
            self._log(f"openmem-context: write queue closed with {len(left)} jobs unwritten")
        for writer in writers:
            self._shut(writer)

    def _enlist(self, sid: str) -> None:
        """Let a worker have `sid`, once, if it has jobs and no worker is at it. Holds the condition."""
        if sid in self._waiting and sid not in self._running and sid not in self._ready:
            self._ready.append(sid)
            self._changed.notify()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            sid, job = taken
            self._run(sid, job)
            self._finish(sid, job)

    def _take(self) -> tuple[str, _Job] | None:
        """Wait for a job; None when the queue is closed and empty."""
        with self._changed:
            while not self._ready:
                if self._closed and not self._waiting:
                    return None
                self._changed.wait()
            sid = self._ready.popleft()
            self._running.add(sid)
            jobs = self._waiting[sid]
            job = jobs.popleft()
            if not jobs:
                del self._waiting[sid]
            return sid, job

    def _run(self, sid: str, job: _Job) -> None:
        """Run one job; only this thread has the session meanwhile."""
        if not job.future.set_running_or_notify_cancel():
            return
        try:
            writer = self._writer(sid)
            result = job.run(writer)
        except BaseException as error:
            if isinstance(error, UnsupportedSchema):
                self._drop(sid)  # a newer program may want to be its writer
            job.future.set_exception(error)
            return
        job.future.set_result(result)
        try:
            writer.checkpoint()
        except apsw.Error as error:
            self._log(f"openmem-context: checkpoint failed {type(error).__name__}")

    def _finish(self, sid: str, job: _Job) -> None:
        """Give the session back and close the databases that went unused longest."""
        with self._changed:
            self._bytes -= job.size
            self._release(sid)
            idle = [other for other in self._writers if other not in self._waiting and other not in self._running]
            evicted = idle[: max(0, len(self._writers) - self._max_open)]
            self._running.update(evicted)  # while it is closed nobody else may open it
        for other in evicted:
            self._drop(other)
        with self._changed:
            for other in evicted:
                self._release(other)
            self._changed.notify_all()

    def _release(self, sid: str) -> None:
        """Let other workers have `sid`. Holds the condition."""
        self._running.discard(sid)
        self._enlist(sid)

    def _writer(self, sid: str) -> SessionWriter:
        with self._changed:
            writer = self._writers.get(sid)
            if writer is not None:
                self._writers.move_to_end(sid)
                return writer
        writer = SessionWriter(self._layout.database(sid), version=self._version, log=self._log)
        with self._changed:
            self._writers[sid] = writer
        return writer

    def _drop(self, sid: str) -> None:
        with self._changed:
            writer = self._writers.pop(sid, None)
        if writer is not None:
            self._shut(writer)

    def _shut(self, writer: SessionWriter) -> None:
        try:
            writer.close()
        except (apsw.Error, OSError) as error:
            self._log(f"openmem-context: closing a database failed {type(error).__name__}")
