import stat
from pathlib import Path

import pytest
from openmem_store.layout import SUFFIXES, Layout, is_scratch, replace, session_of


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directories_are_made_for_the_owner_alone(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "a" / "context")
    layout.prepare()
    assert [mode(path) for path in (layout.root, layout.sessions, layout.blobs)] == [0o700] * 3


def test_a_directory_open_to_others_is_closed_to_them(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "context")
    layout.sessions.mkdir(parents=True)
    layout.sessions.chmod(0o755)
    layout.prepare()
    assert mode(layout.sessions) == 0o700


def test_the_paths_are_those_of_the_contract(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    named = [layout.database("s"), layout.trim("s"), layout.force("s"), layout.registration("s"), layout.blob("b")]
    assert [path.relative_to(tmp_path).as_posix() for path in [*named, layout.ttl_stamp]] == [
        "sessions/s.db",
        "sessions/s.trim.json",
        "sessions/s.force",
        "sessions/s.json",
        "blobs/b.txt",
        ".ttl-stamp",
    ]


@pytest.mark.parametrize(
    ("name", "session"),
    [
        *[(f"a.b{suffix}", "a.b") for suffix in SUFFIXES],
        ("s.db.corrupt-1", "s"),
        ("s.db.corrupt-12-wal", "s"),
        ("s.db.corrupt-1-shm", "s"),
        (".db", None),
        (".s.json", None),
        ("s.txt", None),
        ("s", None),
        ("s.db-journal", None),
        ("s.db.corrupt-x", None),
        ("notes.corrupt-1", None),
    ],
)
def test_a_file_belongs_to_the_session_its_longest_suffix_leaves(name: str, session: str | None) -> None:
    assert session_of(name) == session


def test_replace_writes_whole_content_for_the_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"old")
    path.chmod(0o644)
    replace(path, b"\x00new")
    assert path.read_bytes() == b"\x00new"
    assert mode(path) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_a_failed_replace_leaves_the_old_bytes_and_no_scratch(tmp_path: Path) -> None:
    target = tmp_path / "x.json"
    target.mkdir()
    with pytest.raises(OSError, match="directory"):
        replace(target, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_what_a_crashed_replace_leaves_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("killed")))
        patched.setattr(Path, "unlink", lambda self, missing_ok=False: None)
        with pytest.raises(OSError, match="killed"):
            replace(tmp_path / "s.trim.json", b"half")
    (left,) = [entry.name for entry in tmp_path.iterdir()]
    assert is_scratch(left)
    assert not any(map(is_scratch, ("s.trim.json", ".ttl-stamp", ".writers.lock", ".hidden")))


def test_the_paths_that_are_ours_alone_go_with_their_session(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert (layout.off(None), layout.off("s")) == (tmp_path / ".off", tmp_path / "sessions" / "s.off")
    assert [session_of(path.name) for path in (layout.off("s"), layout.notice("s"))] == ["s", "s"]
