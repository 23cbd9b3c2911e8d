"""Own the process in which a launcher's proxy runs: mitmdump that ends when its launcher does.

The launcher holds the other end of our stdin. However it ends, killed included, the kernel closes that end:
then this process drains like on SIGTERM, so that nothing stays behind.
"""

import os
import signal
import sys
import threading

_HARD_LIMIT_S = 600.0  # longer than the drain waits for a running stream; past it the process is stuck


def main() -> None:
    threading.Thread(target=_follow_launcher, name="launcher", daemon=True).start()
    from mitmproxy.tools.main import mitmdump

    mitmdump(sys.argv[1:])


def _follow_launcher() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(_HARD_LIMIT_S)
    os._exit(1)


if __name__ == "__main__":
    main()
