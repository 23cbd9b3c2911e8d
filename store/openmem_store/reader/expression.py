r"""Own what a pattern means, and how one that is meant for one line is run over a whole text at once.

The engine is `regress`: ECMAScript 2025 with the `m` flag and its old, lenient syntax. It differs from a
browser's in three things, found by comparing 30,000 invented patterns: a character is a code point, as
with the `u` flag; `\u{1F600}` is one too, without that flag; and `\b` and `\B` may be repeated. An older
JavaScript also refuses `(?i:…)` and a group name that stands once in each alternative. A pattern that asks
for a property of characters (`\p{L}`) has the `u` flag and with it the strict syntax: without, it would
look for the letters of the name, and nobody means that.

Testing each line by itself costs more than the engine: a call per line, 300,000 of them. So the pattern
is rewritten to one that means the same on every line but matches no line end, and then takes the rest of
its line with it: it matches once for each line that the pattern matches, whatever follows.
"""

import re

import msgspec
import regress

FLAGS = "m"
"""`^` and `$` also hold at line ends inside a text, a carriage return included."""

_PROPERTY = re.compile(r"(?<!\\)(?:\\\\)*\\[pP]\{[A-Za-z_]")

_ESCAPES = {"s": r"[^\S\n]", "W": r"[^\w\n]", "D": r"[^\d\n]", "n": "(?:(?!))"}
"""Outside a class: what matches no line end in place of what may match one."""

_NUMBERED = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|c([A-Za-z])|0(?![0-9]))")
_RISKY_IN_CLASS = frozenset("sWDnxucpPtb01234567")
_LINE_END = 10

_CLASS = re.compile(r"\[(\^?)((?:[^\]\\]|\\.)*)\]", re.DOTALL)
_MODIFIERS = re.compile(r"\(\?[a-z]*s[a-z-]*:")


class Expression(msgspec.Struct, frozen=True):
    """A compiled pattern."""

    line: regress.Regex
    """As it was written, to be asked about one line, or one text."""
    lines: regress.Regex | None
    """Matches `text + "\\n"` once for each line of `text` that matches; None where only `line` can tell."""
    crosses: bool
    """Whether it may match across lines, so that a text can match although none of its lines does."""
    phrases: str
    """FTS5 query that every text with a match fulfils; empty where nothing is known of such a text."""


def compiled(pattern: str) -> Expression:
    """Compile a pattern in JavaScript's syntax. Raises regress.RegressError."""
    meant = flags(pattern)
    line = regress.Regex(pattern, meant)
    rewritten = per_line(pattern)
    if rewritten is None:
        return Expression(line, None, crosses=True, phrases=phrases(pattern))
    lines = regress.Regex(rewritten, meant)
    return Expression(line, lines, crosses=rewritten != _with_rest(pattern), phrases=phrases(pattern))


def flags(pattern: str) -> str:
    """Return the flags that a pattern is meant to have."""
    return FLAGS + "u" if _PROPERTY.search(pattern) else FLAGS


def per_line(pattern: str) -> str | None:
    """Return a pattern that matches `text + "\\n"` once for each line of `text` that `pattern` matches by itself.

    Both in JavaScript's syntax with the `m` flag. None for one that cannot be told to stay on a line
    (a dot that means line ends too, properties, octal numbers): its lines are to be tested one by one.
    """
    parts: list[str] = []
    position = 0
    if _MODIFIERS.search(pattern):
        return None
    while position < len(pattern):
        match pattern[position]:
            case "\\":
                taken, part = _escape(pattern, position)
            case "[":
                taken, part = _class(pattern, position)
            case "\n":
                taken, part = 1, _ESCAPES["n"]
            case other:
                taken, part = 1, other
        if part is None:
            return None
        parts.append(part)
        position += taken
    return _with_rest("".join(parts))


def _with_rest(pattern: str) -> str:
    return rf"(?:{pattern})[^\n]*\n"


def _escape(pattern: str, start: int) -> tuple[int, str | None]:
    """Return how long the escape at `start` is and what to write instead, None where it is not known."""
    number = _NUMBERED.match(pattern, start)
    if number is not None:
        return len(number[0]), _ESCAPES["n"] if _code(number) == _LINE_END else number[0]
    letter = pattern[start + 1 : start + 2]
    if letter in ("p", "P") or re.match(r"[0-9]{2}", pattern[start + 1 : start + 3]):
        return 2, None
    if letter == "\n":
        return 2, _ESCAPES["n"]
    return 2, _ESCAPES.get(letter, pattern[start : start + 2])


def _class(pattern: str, start: int) -> tuple[int, str | None]:
    found = _CLASS.match(pattern, start)
    if found is None:
        return 1, None
    negated, inside = found.groups()
    if negated:
        return len(found[0]), rf"[^{inside}\n]"
    escapes = {escape[1] for escape in re.findall(r"\\.", inside, re.DOTALL)}
    # A range may span the line end only from a control character; anything that might is held back by the lookahead.
    if escapes & _RISKY_IN_CLASS or any(ord(each) <= _LINE_END for each in inside):
        return len(found[0]), rf"(?:(?!\n){found[0]})"
    return len(found[0]), found[0]


def _code(number: re.Match[str]) -> int:
    hexadecimal, unicode, control = number.groups()
    if control:
        return ord(control) & 31
    return int(hexadecimal or unicode or "0", 16)


_LITERAL = re.compile(r"[ !-#%&',/0-9:;<=>@A-Z_`a-z~\"-]|\\[!-/:-@\[-`{-~]")
_SPACE = re.compile(r"\\s\+?(?![*?{])")
_QUANTIFIER = re.compile(r"[*+?]|\{\d+(?:,\d*)?\}")
_GROUP = re.compile(r"\((?:[^()\\\[]|\\.|\[(?:[^\]\\]|\\.)*\])*\)", re.DOTALL)
_OTHER = re.compile(r"\\k<[^>]*>|\\[pP]\{[^}]*\}|\\.|\[(?:[^\]\\]|\\.)*\]|.", re.DOTALL)
_TOKEN = re.compile(r"[0-9A-Za-z]+")


def phrases(pattern: str) -> str:
    """Return an FTS5 query for the words that a pattern spells out in full.

    Only characters outside groups and alternatives count, and of these only words whose both ends are
    sure: `KEY_1` says nothing of the word it is in, `^SET KEY_1 =` does. So it may find more rows than
    match, never fewer.
    """
    found: list[str] = []
    run, edge = "", False
    position = 0
    while position < len(pattern):
        literal = _LITERAL.match(pattern, position)
        taken = literal or _SPACE.match(pattern, position) or _GROUP.match(pattern, position)
        taken = taken or _OTHER.match(pattern, position)
        assert taken is not None
        if taken[0] in ("|", "("):  # an alternative, or a group inside a group
            return ""
        position = taken.end()
        quantifier = _QUANTIFIER.match(pattern, position)
        if literal is not None and quantifier is None:
            run += literal[0][-1]
            continue
        sure = quantifier is None and (taken[0] in ("^", "$") or taken[0].startswith("\\s"))
        found += _words(run, edge, sure)
        run, edge = "", sure
        position = quantifier.end() if quantifier else position
        position += pattern[position : position + 1] == "?" and quantifier is not None
    found += _words(run, edge, False)
    return " AND ".join(f'"{words}"' for words in found)


def _words(run: str, starts: bool, ends: bool) -> list[str]:
    """Return the words of a run of characters as one phrase; those at its edges only where the edge is sure."""
    kept = [
        token[0] for token in _TOKEN.finditer(run) if (token.start() or starts) and (token.end() < len(run) or ends)
    ]
    return [" ".join(kept)] if kept else []
