"""Invent configuration files as people write them: any spacing, comments, trailing commas, line ends and forms."""

import json
import random
from typing import Any

from hypothesis import strategies as st

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
SERVERS = st.dictionaries(st.sampled_from(("openmem", "theirs")), st.fixed_dictionaries({"command": st.just("npx")}))
HOOK = st.fixed_dictionaries({"type": st.just("command"), "command": st.sampled_from(("theirs", "a, b // c"))})
GROUPS = st.lists(st.fixed_dictionaries({"hooks": st.lists(HOOK, max_size=2)}), max_size=2)
EVENTS = st.dictionaries(st.sampled_from(("SessionStart", "UserPromptSubmit", "Stop")), GROUPS)

JSON = st.tuples(
    st.dictionaries(st.sampled_from(("a", "b\u2028", "c d")), VALUES, max_size=2),
    st.fixed_dictionaries({}, optional={"mcp": SERVERS, "mcpServers": SERVERS, "hooks": EVENTS}),
).map(lambda parts: {**parts[0], **parts[1]})
"""Documents of any agent that is configured in JSON."""

GAPS = ("", "", " ", "\n", "\n  ", "\n\t", " // c, }\n", " /* c, ] */ ", "\n// c\n", "/* 1\n2 */")


@st.composite
def json_files(draw: st.DrawFn) -> str:
    """Return the text of a file: a document in one of these layouts, perhaps with comments anywhere."""
    document = draw(JSON)
    dice = draw(st.randoms(use_true_random=False))
    if draw(st.booleans()):
        text = json.dumps(document, indent=draw(st.sampled_from((None, 2, 4, "\t"))), ensure_ascii=False)
    else:
        text = f"{dice.choice(GAPS)}{_decorated(document, dice)}{dice.choice(GAPS)}"
    text = text.replace("\n", draw(st.sampled_from(("\n", "\r\n"))))
    return draw(st.sampled_from(("", "\ufeff"))) + text + draw(st.sampled_from(("", "\n")))


def _decorated(value: Any, dice: random.Random) -> str:
    def gap() -> str:
        return dice.choice(GAPS)

    if isinstance(value, dict):
        parts = [
            f"{gap()}{json.dumps(key)}{gap()}:{gap()}{_decorated(each, dice)}{gap()}" for key, each in value.items()
        ]
        opening, closing = "{}"
    elif isinstance(value, list):
        parts = [f"{gap()}{_decorated(each, dice)}{gap()}" for each in value]
        opening, closing = "[]"
    else:
        return json.dumps(value, ensure_ascii=dice.random() < 0.5)
    trailing = f",{gap()}" if parts and dice.random() < 0.3 else ""
    return f"{opening}{','.join(parts)}{trailing or gap()}{closing}"


BLOCKS = (
    'model = "m"',
    "# about nothing",
    '[mcp_servers.theirs]\ncommand = "npx" # theirs\nargs = [\n  "a", # one\n  "[mcp_servers.openmem]",\n]',
    '[mcp_servers.theirs.env]\nA = "1"',
    "[mcp_servers]",
    '[mcp_servers.openmem]\ncommand = "npx"',
    '[ mcp_servers . "quoted.name" ]\n\tcommand = "x"',
    '[[hooks.SessionStart]]\n[[hooks.SessionStart.hooks]]\ntype = "command"\ncommand = "theirs"',
    'text = """\n[a.b]\n"""',
    "[projects.\"/a.b/[c]\"]\ntrust_level = 'trusted'",
    "features = { a = true, b = false }",
    "a.b = 1",
    '[profiles.x]\nmodel = "\u2028"',
)


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    """Return the text of a file: some of the blocks, perhaps one that is no TOML any more."""
    blocks = draw(st.lists(st.sampled_from(BLOCKS), max_size=5, unique=True))
    between = draw(st.sampled_from(("\n", "\n\n", "\n\n\n", "\n# c\n")))
    text = between.join(blocks) + draw(st.sampled_from(("", "\n", "\n\n", "\n# end", "  \n")))
    text = text.replace("\n", draw(st.sampled_from(("\n", "\r\n"))))
    return draw(st.sampled_from(("", "\ufeff"))) + text
