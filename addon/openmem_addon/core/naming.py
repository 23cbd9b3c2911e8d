"""Own the fields of any wire's body that can name a session, and whatever type a client gives them."""

import msgspec


class Metadata(msgspec.Struct):
    user_id: object = None


class Original(msgspec.Struct):
    """The request as a gateway first got it, which it passes along."""

    metadata: Metadata | None = None
    prompt_cache_key: object = None


class _Passed(msgspec.Struct):
    body: Original | None = None


class Named(msgspec.Struct):
    """The naming fields of a request; a wire's own request adds what else it reads."""

    metadata: Metadata | None = None
    prompt_cache_key: object = None
    proxy_server_request: _Passed | None = None

    def users(self) -> tuple[str, ...]:
        """Return `metadata.user_id` of the request, then of its original."""
        return tuple(
            body.metadata.user_id
            for body in self._bodies()
            if body.metadata is not None and isinstance(body.metadata.user_id, str)
        )

    def cache_keys(self) -> tuple[str, ...]:
        """Return `prompt_cache_key`, likewise."""
        return tuple(body.prompt_cache_key for body in self._bodies() if isinstance(body.prompt_cache_key, str))

    def _bodies(self) -> "list[Named | Original]":
        original = self.proxy_server_request.body if self.proxy_server_request else None
        return [self] if original is None else [self, original]
