"""Own when a process lets go of what it keeps for the next call: some time after the last."""

import threading
import time
from collections.abc import Callable


class Idle:
    """Calls `release` once when nothing was used for `seconds`, in a thread that does not keep the process alive."""

    def __init__(self, seconds: float, release: Callable[[], None]) -> None:
        self._seconds = seconds
        self._release = release
        self._lock = threading.Lock()
        self._until = 0.0
        self._counting = False
        self._thread: threading.Thread | None = None

    def used(self) -> None:
        """Begin to count anew."""
        with self._lock:
            self._until = time.monotonic() + self._seconds
            if not self._counting:
                self._counting = True
                self._thread = threading.Thread(target=self._count, daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Wait until all was let go of."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _count(self) -> None:
        while (rest := self._rest()) > 0:
            time.sleep(rest)
        self._release()

    def _rest(self) -> float:
        """Return the seconds that are left; with none the next use begins with a thread of its own."""
        with self._lock:
            rest = self._until - time.monotonic()
            self._counting = rest > 0
            return rest
