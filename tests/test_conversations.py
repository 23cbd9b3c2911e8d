"""Hold every wire to the table of conversations in `fixtures/conversations`.

`OPENMEM_WRITE_EXPECTED=1` writes what comes out as what is expected: read the difference before it is committed.
"""

import os
from pathlib import Path

import apsw
import pytest
from openmem_store.layout import Layout
from openmem_store.writer import SessionWriter

from tests import table
from tests.forwarding import facts
from tests.table import Case
from tests.verdict import refusal
from tests.wires import Json, Wire

CASES = table.cases()
NOW = "2030-01-01T00:00:00Z"
WRITE = os.environ.get("OPENMEM_WRITE_EXPECTED") == "1"

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.folder.name)
each_body = pytest.mark.parametrize(
    ("case", "wire"),
    [pytest.param(case, wire, id=f"{case.folder.name}-{wire}") for case in CASES for wire in case.wires],
)


@each_case
def test_a_conversation_gives_the_rows_and_the_views_its_folder_says(case: Case) -> None:
    outcome = table.outcome(case, {wire: table.play(case, wire) for wire in case.wires})
    if WRITE:
        table.write(case, outcome)
    assert outcome == table.read(case.folder).requests


@each_case
def test_one_conversation_gives_the_same_rows_and_drops_the_same_on_every_wire(case: Case) -> None:
    first, *others = [[sent and facts(sent) for sent in table.play(case, wire)] for wire in case.wires]
    for other in others:
        assert other == first


@each_body
def test_what_leaves_is_accepted_where_what_came_was(case: Case, wire: Wire) -> None:
    for sent in table.play(case, wire):
        if sent is not None:
            broken = _rule(wire, sent.inbound)
            assert broken in (None, *case.given.refused)
            assert _rule(wire, sent.outbound) == broken


def _rule(wire: Wire, body: Json) -> str | None:
    """Return the name of the rule a request breaks."""
    said = refusal(wire, body)
    return said and said.partition(":")[0]


@each_case
def test_the_store_holds_every_row_and_whether_the_model_still_sees_it(case: Case, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.prepare()
    writer = SessionWriter(layout.database("s-1"), version="test")
    expected: dict[str, tuple[str, int, str | None]] = {}
    for place, sent in enumerate(table.play(case, case.wires[0])):
        if sent is None or place in case.given.passive:
            continue
        decided = sent.decided
        writer.sync(decided.rows, dropped=decided.dropped, cut=decided.cut_row, owned=0, blobs=decided.blob_ids, at=NOW)
        for index, row in enumerate(decided.rows):
            blob = decided.blob_ids.get(index) or (expected.get(row.fingerprint) or (None,))[-1]
            expected[row.fingerprint] = (row.text, int(index not in decided.dropped), blob)
    writer.close()
    found = apsw.Connection(str(layout.database("s-1"))).execute(
        "SELECT fingerprint, text, in_context, blob_id FROM messages ORDER BY seq"
    )
    assert [(name, *rest) for name, *rest in found] == [(name, *rest) for name, rest in expected.items()]


@each_case
def test_a_folder_says_in_one_line_what_it_shows(case: Case) -> None:
    assert case.shows
    assert "\n" not in case.shows
    files = {path.name for path in case.folder.iterdir()}
    assert files == {"expected.json", *(f"{wire}.json" for wire in case.wires)}
    assert case.wires


def test_the_readme_names_every_field_a_case_may_give() -> None:
    readme = (table.TABLE / "README.md").read_text()
    for field in table.Given.__struct_fields__:
        assert f"`{field}`" in readme
