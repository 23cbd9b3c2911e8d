"""Which session files are read."""

import os
from pathlib import Path

import pytest
from openmem_store import registration
from openmem_store.layout import Layout
from openmem_store.reader import databases
from openmem_store.reader.answers import RefusedError

from tests.store.reader.conversation import said, store


def test_a_named_session_is_the_only_one(layout: Layout) -> None:
    store(layout, "one", said("x"))
    store(layout, "two", said("x"))
    assert databases.choose(layout, "one", cwd=layout.root).sids == ("one",)


def test_an_unknown_session_is_refused_without_a_path(layout: Layout) -> None:
    with pytest.raises(RefusedError, match="session_id 'gone' has no stored messages") as refusal:
        databases.choose(layout, "gone", cwd=layout.root)
    assert str(layout.root) not in str(refusal.value)


def test_an_empty_store_says_so(layout: Layout) -> None:
    with pytest.raises(RefusedError, match="nothing is stored yet"):
        databases.choose(layout, None, cwd=layout.root)


def test_without_a_name_the_sessions_of_the_workspace_are_read(layout: Layout, tmp_path: Path) -> None:
    """A session belongs to a workspace by where its agent works, anywhere under the same git root."""
    repository = tmp_path / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / "deep" / "er").mkdir(parents=True)
    for sid, cwd in (("here", repository / "deep"), ("there", tmp_path), ("nowhere", None)):
        store(layout, sid, said("x"))
        if cwd is not None:
            registration.write(layout, registration.Registration(session_id=sid, cwd=str(cwd)))
    choice = databases.choose(layout, None, cwd=repository / "deep" / "er")
    assert choice == databases.Choice(("here",), "the 1 newest sessions of this workspace")


def test_without_registrations_the_newest_sessions_are_read(layout: Layout, tmp_path: Path) -> None:
    for age in range(databases.MOST_SESSIONS + 2):
        os.utime(store(layout, f"s{age:02}", said("x")), (1_000_000 - age, 1_000_000 - age))
    choice = databases.choose(layout, None, cwd=tmp_path)
    assert choice.sids == tuple(f"s{age:02}" for age in range(databases.MOST_SESSIONS))
    assert choice.scope == "no session is registered for this workspace, so the 10 newest of all"


def test_a_commit_in_the_log_makes_a_session_new(layout: Layout) -> None:
    for sid, age in (("old", 5), ("new", 1)):
        os.utime(store(layout, sid, said("x")), (1_000_000 - age, 1_000_000 - age))
    log = layout.sessions / "old.db-wal"
    log.touch()
    assert databases.stored(layout) == ("new", "old"), "a look leaves an empty log, which is no change"
    log.write_bytes(b"frames")
    os.utime(log, (1_000_000, 1_000_000))
    assert databases.stored(layout) == ("old", "new")


def test_the_workspace_is_the_git_root_or_the_directory(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere")
    assert databases.workspace(tmp_path / "a" / "b") == (tmp_path / "a").resolve()
