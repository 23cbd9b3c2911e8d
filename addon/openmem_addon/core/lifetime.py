"""Own how long a provider may keep the cached prefix of a request, by what the request itself asks for.

Upper bounds: a prefix that is called cold must be gone.
"""

from collections.abc import Iterable

FIVE_MINUTES, HOUR, DAY = 300, 3_600, 86_400
"""Seconds."""

_SHORT = b'"5m"'

_RETENTIONS: dict[object, int] = {"in_memory": HOUR, "in-memory": HOUR}
"""`prompt_cache_retention`: in memory a prefix outlives no hour (developers.openai.com, "Prompt caching")."""


def marked(markers: Iterable[bytes]) -> int:
    """Return the seconds for which the longest-lived of Anthropic's markers asks; 0 without any.

    A marker without `ttl` lasts five minutes; what we do not know is taken for the longest there is.
    """
    return max((FIVE_MINUTES if b'"ttl"' not in marker or _SHORT in marker else HOUR for marker in markers), default=0)


def retained(stated: object) -> int:
    """Return the seconds for which OpenAI's cache, which asks for no marker, may keep a prefix.

    Which retention a model has by itself is the provider's: unless a request says `in_memory`, it is a day.
    """
    return _RETENTIONS.get(stated, DAY) if isinstance(stated, str) else DAY
