"""Own the OpenAI Chat Completions wire: `parse` and `usage` read what it says, `render` puts a request together again.

https://platform.openai.com/docs/api-reference/chat
"""

from .counts import usage
from .reading import parse
from .writing import render

__all__ = ["parse", "render", "usage"]
