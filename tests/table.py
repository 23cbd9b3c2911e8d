"""Own the table of conversations in `fixtures/conversations`: read a case, play it on a wire, say what came of it."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from openmem_addon.core import responses, source, texts
from openmem_store.rows import Row

from tests.forwarding import ITEMS, WIDE, Forwarded, Proxied, elements
from tests.wires import WIRES, Json, Wire

TABLE = Path(__file__).parent.parent / "fixtures" / "conversations"

MOST_SHOWN = 100
"""Code points of a text that `expected.json` spells out; the fingerprints hold the rest to the letter."""


class Response(msgspec.Struct):
    """What a request was answered with."""

    answers: int
    output: list[Json]


class Given(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What befalls the requests of a case, by their place in its files."""

    force: tuple[int, ...] = ()
    """A person asks for a trim."""
    outage: tuple[int, ...] = ()
    """The store fails: nothing new may leave the prompt."""
    missed: tuple[int, ...] = ()
    """The request does not pass us."""
    passive: tuple[int, ...] = ()
    """A token count, or a compaction of the client's own."""
    forked: tuple[int, ...] = ()
    """The history comes under another session id from here on."""
    responses: dict[str, Response] = {}
    """By id: responses that the provider keeps, to be continued."""
    refused: tuple[str, ...] = ()
    """Rules of the strict provider that the client's own requests break; ours then break the same."""
    limits: dict[str, Any] = {}
    """Fields of the policy that differ from a wide one, which trims only when forced."""


class Case(msgspec.Struct, frozen=True):
    """One folder."""

    folder: Path
    shows: str
    given: Given
    requests: list[Json]
    """What is expected of each request, in every wire's words."""

    @property
    def wires(self) -> tuple[Wire, ...]:
        return tuple(wire for wire in WIRES if (self.folder / f"{wire}.json").exists())

    def bodies(self, wire: Wire) -> list[bytes]:
        """Return the requests of a wire, each to the byte."""
        content = (self.folder / f"{wire}.json").read_bytes()
        return [content[a:b] for a, b in source.elements(source.readable(content))]


def read(folder: Path) -> Case:
    found = json.loads((folder / "expected.json").read_text())
    given = msgspec.convert(found.get("given", {}), Given)
    return Case(folder, found["shows"], given, found.get("requests", []))


def cases() -> list[Case]:
    return [read(path) for path in sorted(TABLE.iterdir()) if path.is_dir()]


# --- playing -----------------------------------------------------------------------------------------------


def play(case: Case, wire: Wire) -> list[Forwarded | None]:
    """Send a case's requests in turn; None for one that does not pass us."""
    given = case.given
    policy = msgspec.structs.replace(WIDE, **given.limits)
    proxied = Proxied(wire, policy)
    played: list[Forwarded | None] = []
    for place, body in enumerate(case.bodies(wire)):
        if place in given.missed:
            played.append(None)
            continue
        if place in given.passive:
            played.append(proxied.peek(body))
            continue
        if place in given.forked:
            proxied = Proxied(wire, msgspec.structs.replace(policy, sid="s-2"), others=[proxied])
        made = proxied.send(body, may_change=place not in given.outage, force=place in given.force)
        played.append(made)
        for name, response in given.responses.items():
            if response.answers == place:
                answer = responses.usage(msgspec.json.encode({"id": name, "output": response.output}))
                assert answer is not None
                proxied.keep(name, made, answer.output)
        proxied.restart()
        assert proxied.send(body, may_change=False).left == made.left
    return played


# --- saying what came of it --------------------------------------------------------------------------------


def outcome(case: Case, played: Mapping[Wire, Sequence[Forwarded | None]]) -> list[Json]:
    """Return what `expected.json` says of each request: its rows once, for every wire, and each wire's view."""
    first = next(iter(played.values()))
    known: dict[str, None] = {}
    said: list[Json] = []
    for place, made in enumerate(first):
        views = {wire: _view(found) for wire, sent in played.items() if (found := sent[place]) is not None}
        rows = {} if made is None or place in case.given.passive else _rows(made, known)
        said.append(rows | ({"views": views} if views else {}))
    return said


def _rows(made: Forwarded, known: dict[str, None]) -> Json:
    rows = made.decided.rows
    new = [row for row in rows if row.fingerprint not in known]
    known.update((row.fingerprint, None) for row in rows)
    found: Json = {"known": len(rows) - len(new), "rows": [_row(row) for row in new]}
    if rows:
        found["last"] = rows[-1].fingerprint
    if made.decided.dropped:
        found["dropped"] = _runs(sorted(made.decided.dropped))
    if made.decided.cut_row is not None:
        found["cut_row"] = made.decided.cut_row
    if made.decided.blob_ids:
        found["blobs"] = {str(row): blob for row, blob in made.decided.blob_ids.items()}
    return found


def _row(row: Row) -> list[str | None]:
    text = row.text
    if len(text) > MOST_SHOWN:
        text = f"{text[:40]}… «{len(text)} code points»"
    return [row.role, row.kind, row.name, text]


def _view(made: Forwarded) -> str | Json:
    """Return how a request left: `as it came`, or its changed head and its items.

    `3-5` are the client's own items, to the byte; an object is an item we wrote or changed.
    """
    if made.left == made.came:
        return "as it came"
    inbound, outbound = elements(made.wire, made.came), elements(made.wire, made.left)
    readable = _readable(made)
    view: Json = {}
    old, new = made.inbound, made.outbound
    for key in new:
        if key != ITEMS[made.wire] and new[key] != old.get(key):
            view[key] = readable(new[key])
    items: list[Any] = []
    kept = list(made.decided.rendering.kept)
    for element in outbound:
        same = next((place for place, index in enumerate(kept) if inbound[index] == element), None)
        if same is None:
            items.append(readable(json.loads(element)))
        else:
            items.append(kept[same])
            del kept[: same + 1]
    view["items"] = _folded(items)
    if made.decided.trim is not None:
        view["newly_dropped"] = made.decided.trim.dropped
    return view


def _folded(items: Sequence[Any]) -> list[Any]:
    """Return items with runs of the client's own as `3-5`."""
    folded: list[Any] = []
    for item in items:
        last = folded[-1] if folded and isinstance(folded[-1], tuple) else None
        if not isinstance(item, int):
            folded.append(item)
        elif last and last[1] + 1 == item:
            folded[-1] = (last[0], item)
        else:
            folded.append((item, item))
    return [_span(*item) if isinstance(item, tuple) else item for item in folded]


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _runs(places: Sequence[int]) -> list[str]:
    return _folded(list(places))


_POINTER = re.compile(re.escape(texts.pointer("s-1", 0)).replace("\\ 0\\ ", r"\ (\d+)\ ").replace("s\\-1", r"([\w-]+)"))


def _readable(made: Forwarded) -> Any:
    """Return a function that puts a short name for each sentence of ours."""
    forms = {form for shown in made.decided.rendering.compressed.values() for form in shown.values()}
    names = {form: re.search(r'id="(\w+)"', form)[1] for form in forms}  # pyright: ignore

    def readable(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: readable(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [readable(inner) for inner in value]
        if not isinstance(value, str):
            return value
        value = value.replace(texts.STANDING_INSTRUCTION, "«instruction»")
        value = _POINTER.sub(lambda found: f"«pointer to {found[2]} in {found[1]}»", value)
        for form, blob in names.items():
            value = value.replace(form, f"«compressed {blob}»")
        return f"{value[:40]}… «{len(value)} code points»" if len(value) > MOST_SHOWN + 60 else value

    return readable


def write(case: Case, requests: list[Json]) -> None:
    """Write what came of a case as what is expected of it, one row or item a line."""
    given = msgspec.to_builtins(case.given)
    pieces = [f'  "shows": {_json(case.shows)}']
    if given:
        pieces.append(f'  "given": {_json(given)}')
    pieces.append('  "requests": [\n' + ",\n".join(map(_request, requests)) + "\n  ]")
    (case.folder / "expected.json").write_text("{\n" + ",\n".join(pieces) + "\n}\n")


def _request(said: Json) -> str:
    lines = []
    for key, value in said.items():
        if key == "rows" and value:
            rows = ",\n".join(f"        {_json(row)}" for row in value)
            lines.append(f'      "rows": [\n{rows}\n      ]')
        elif key == "views":
            views = ",\n".join(f'        "{wire}": {_view_lines(view)}' for wire, view in value.items())
            lines.append(f'      "views": {{\n{views}\n      }}')
        else:
            lines.append(f'      "{key}": {_json(value)}')
    return "    {\n" + ",\n".join(lines) + "\n    }" if lines else "    {}"


def _view_lines(view: str | Json) -> str:
    if isinstance(view, str):
        return _json(view)
    lines = []
    for key, value in view.items():
        if key == "items":
            items = ",\n".join(f"            {_json(item)}" for item in value)
            lines.append(f'          "items": [\n{items}\n          ]')
        else:
            lines.append(f'          "{key}": {_json(value)}')
    return "{\n" + ",\n".join(lines) + "\n        }"


def _json(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text
