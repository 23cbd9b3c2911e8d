"""Own the README's table of settings: it is written from the fields of `Settings`, and never by hand.

`make settings` writes it; a test compares. Needs the source text, as a checkout has it: what a field means is the
string below it.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from openmem_store.settings import CONFIG, SOURCES, STATE, Settings, key

HEAD = "| Variable | Table and key | Default | Meaning |"

_TABLE = re.compile(rf"{re.escape(HEAD)}\n(\|.*\n)+")


def table() -> str:
    """Return the table, its last line ended."""
    meanings = _meanings()
    defaults = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    rows = [
        (
            f"`{source.variable}`",
            f"`[{source.table}]` `{key(field)}`" if source.table else "",
            _shown(defaults[field]),
            meanings[field],
        )
        for field, source in SOURCES.items()
    ]
    rows += [(f"`{place.variable}`", "", f"`{place.default}`", place.meaning) for place in (STATE, CONFIG)]
    lines = [HEAD, "| --- | --- | --- | --- |", *(f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def written(document: str) -> str:
    """Return a document with its table as it should be. Raises ValueError where it has none."""
    if not _TABLE.search(document):
        raise ValueError(f"no table begins with {HEAD}")
    return _TABLE.sub(lambda _: table(), document, count=1)


def main() -> None:
    """Write the table into the file that is named."""
    path = Path(sys.argv[1])
    path.write_text(written(path.read_text()))


def _meanings() -> dict[str, str]:
    """Return the string below each field of `Settings`."""
    return dict(_documented(ast.parse(inspect.getsource(Settings))))


def _documented(tree: ast.Module) -> Iterator[tuple[str, str]]:
    [struct] = tree.body
    assert isinstance(struct, ast.ClassDef)
    for field, below in zip(struct.body, struct.body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(meaning))):
                yield name, meaning
            case _:
                pass


def _shown(default: object) -> str:
    """Return a default as a person would type it."""
    if default in ("", ()):
        return "none"
    if isinstance(default, bool):
        return str(int(default))
    return f"{default:g}" if isinstance(default, float) else str(default)


if __name__ == "__main__":
    main()
