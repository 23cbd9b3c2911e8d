"""Own the Anthropic Messages wire: `parse` and `usage` read what it says, `render` puts a request together again.

https://platform.claude.com/docs/en/api/messages
"""

from .counts import usage
from .reading import parse
from .writing import VALVE_BETA, render

__all__ = ["VALVE_BETA", "parse", "render", "usage"]
