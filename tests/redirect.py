"""A mitmproxy addon for tests: send every request to the fake provider on the loopback.

Loaded after the addon under test, which therefore still sees the host the client asked for. The
destination changes in `request` and nowhere else: one set in `server_connect` hides the open
connection from mitmproxy's pool, which then opens one per request and stalls at its limit.
"""

from mitmproxy import ctx, http
from mitmproxy.addonmanager import Loader

OWN_HOST = "openmem.local"
"""Answered by the addon under test itself."""


class Redirect:
    """Rewrites scheme, host and port; keeps the host header."""

    def load(self, loader: Loader) -> None:
        """Add the options."""
        loader.add_option("redirect_port", int, 0, "port of the fake provider on 127.0.0.1; 0 = off")
        loader.add_option("redirect_tls", bool, False, "speak TLS to the fake provider")

    def request(self, flow: http.HTTPFlow) -> None:
        """Change where a request goes, unless an addon has answered it."""
        port = ctx.options.redirect_port
        if not port or flow.response is not None or flow.request.host == OWN_HOST:
            return
        header = flow.request.host_header
        flow.request.scheme = "https" if ctx.options.redirect_tls else "http"
        flow.request.host = "127.0.0.1"
        flow.request.port = port
        flow.request.host_header = header


addons = [Redirect()]
