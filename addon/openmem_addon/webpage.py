"""Own the line that says where mitmweb's page is: its own comes at a level that also says three lines a connection."""

from mitmproxy import ctx


class WebPage:
    """The addon; silent in mitmdump, which has no page."""

    def running(self) -> None:
        """Print the page's address, with the token that it asks for unless a person chose a password."""
        url = getattr(ctx.master, "web_url", None)
        if url is not None:
            print(f"The web page: {url}", flush=True)
