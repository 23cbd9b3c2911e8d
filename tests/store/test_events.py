from typing import get_args

import apsw
import msgspec
from openmem_store import schema
from openmem_store.events import Event, Heal


def test_every_event_is_of_a_kind_the_contract_names_or_a_heal() -> None:
    """A heal says where it acted and on what in the columns a failure has."""
    fields = {kind.__struct_config__.tag: kind.__struct_fields__ for kind in get_args(Event)}
    assert fields.keys() == {"trim", "fail_open", "usage", "heal"}
    assert fields["heal"] == ("location", "error")
    assert set(fields["fail_open"]) == set(fields["heal"])


def test_the_fields_of_the_events_are_the_columns_of_the_table() -> None:
    connection = apsw.Connection(":memory:")
    schema.migrate(connection)
    columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(events)")}
    fields = [name for kind in get_args(Event) if kind is not Heal for name in kind.__struct_fields__]
    assert columns == {"id", "at", "kind", "version", *fields}
    assert len(fields) == len(set(fields))


def test_a_count_that_was_not_reported_may_be_none() -> None:
    """The contract stores NULL for it, never 0."""
    usage = next(kind for kind in get_args(Event) if kind.__struct_config__.tag == "usage")
    nullable = {field.name for field in msgspec.structs.fields(usage) if type(None) in get_args(field.type)}
    assert nullable == set(usage.__struct_fields__) - {"trimmed"}
