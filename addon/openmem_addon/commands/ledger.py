"""Own what was changed in files of others: a copy of each from before, and the way back.

A file that nobody else has written since gets its old bytes back; in any other only our entries are taken out.
"""

import errno
import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
from openmem_store import layout

Take = Callable[[str, str], str]
"""Takes a text, and what the file said before we came; returns the text without our entries. Raises ValueError."""


class Kept(msgspec.Struct, frozen=True):
    """One changed file."""

    before: str | None
    """Name of the copy beside the ledger; None for a file that was not there."""
    after: str
    """SHA-256 of what we wrote last."""
    made: tuple[str, ...] = ()
    """Folders made for it, the innermost first."""


class _Book(msgspec.Struct):
    files: dict[str, Kept] = {}


_BOOK = msgspec.json.Decoder(_Book)


class Ledger:
    """Keeps its book and the copies in one folder of the state directory, for the owner alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "files.json"

    @property
    def folder(self) -> Path:
        return self._folder

    def check(self) -> None:
        """Raise OSError unless something can be kept here; leaves nothing behind."""
        made = _missing(self._folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            trial = layout.scratch_for(self._path)
            trial.touch()
            trial.unlink()
        finally:
            for directory in made:
                _remove_if_empty(Path(directory))

    def original(self, path: Path) -> bytes | None:
        """Return what a file said before we came; None where it was not there, or is not in the book."""
        kept = self._book().files.get(str(path))
        return (self._folder / kept.before).read_bytes() if kept and kept.before else None

    def knows(self, path: Path) -> bool:
        return str(path) in self._book().files

    def write(self, path: Path, content: bytes, take: Take, *, empty: str) -> Path | None:
        """Write a file and keep what it said before; return the copy. Raises OSError, ValueError.

        Of a file that somebody wrote since our last change, what it says without our entries is kept, as by `undo`.
        The book is written first: a file that it does not know would keep our entries for ever.
        """
        book = self._book()
        target = path.resolve()  # a link stays one
        check(target)
        current = _read(target)
        former = kept = book.files.get(str(path))
        if kept is None or current is None:
            kept = Kept(self._copied(path, current), "", _missing(target.parent))
        elif kept.after != _digest(current):
            kept = Kept(self._copied(path, self._without(path, current, take, empty)), "", kept.made)
        book.files[str(path)] = msgspec.structs.replace(kept, after=_digest(content))
        self._save(book)
        try:
            for directory in reversed(kept.made):
                Path(directory).mkdir(exist_ok=True, mode=0o700)
            _replace(target, content)
        except BaseException:
            self._restore(book, path, former, kept)
            raise
        if former and former.before and former.before != kept.before:
            (self._folder / former.before).unlink(missing_ok=True)
        return self._folder / kept.before if kept.before else None

    def undone(self, path: Path, take: Take, *, empty: str) -> str | None:
        """Return what a file would say after `undo`, None where it would be gone. Raises OSError, ValueError."""
        current = _read(path.resolve())
        result = self._undone(self._book().files.get(str(path)), path, current, take, empty)
        return result.decode() if result is not None else None

    def undo(self, path: Path, take: Take, *, empty: str) -> str | None:
        """Take a file's change back; return what it says now, None where it is gone. Raises OSError, ValueError.

        `take` returns a text without our entries, given that text and what the file said before.
        """
        book = self._book()
        kept = book.files.get(str(path))
        target = path.resolve()
        current = _read(target)
        result = self._undone(kept, path, current, take, empty)
        if result is None:
            target.unlink(missing_ok=True)
            for directory in kept.made if kept else ():
                _remove_if_empty(Path(directory))
        elif result != current:
            _replace(target, result)
        if kept is not None:
            if kept.before:
                (self._folder / kept.before).unlink(missing_ok=True)
            del book.files[str(path)]
            self._save(book)
        return result.decode() if result is not None else None

    def _undone(self, kept: Kept | None, path: Path, current: bytes | None, take: Take, empty: str) -> bytes | None:
        if current is None:
            return None
        if kept is not None and kept.after == _digest(current):
            return (self._folder / kept.before).read_bytes() if kept.before else None
        return self._without(path, current, take, empty)

    def _restore(self, book: _Book, path: Path, former: Kept | None, kept: Kept) -> None:
        """Take a change out of the book that was not made."""
        if former is None:
            del book.files[str(path)]
        else:
            book.files[str(path)] = former
        if kept.before and (former is None or former.before != kept.before):
            (self._folder / kept.before).unlink(missing_ok=True)
        self._save(book)
        for directory in kept.made if former is None else ():
            _remove_if_empty(Path(directory))

    def _without(self, path: Path, current: bytes, take: Take, empty: str) -> bytes:
        original = self.original(path)
        return take(current.decode(), original.decode() if original is not None else empty).encode()

    def _copied(self, path: Path, content: bytes | None) -> str | None:
        if content is None:
            return None
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{path.name.lstrip('.')}.{_digest(bytes(path) + content)[:12]}"
        layout.replace(self._folder / name, content)
        return name

    def _book(self) -> _Book:
        try:
            return _BOOK.decode(self._path.read_bytes())
        except FileNotFoundError:
            return _Book()
        except msgspec.MsgspecError:
            raise ValueError(f"{self._path} is damaged: remove it, and uninstall takes our entries alone") from None

    def _save(self, book: _Book) -> None:
        if book.files:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            layout.replace(self._path, msgspec.json.format(msgspec.json.encode(book)) + b"\n")
        else:
            self._path.unlink(missing_ok=True)
            _remove_if_empty(self._folder)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def check(path: Path) -> None:
    """Raise PermissionError for a file that its owner keeps from being written: a new file in its place could be."""
    if path.exists() and not path.stat().st_mode & 0o200:
        raise PermissionError(errno.EACCES, "it is read-only", str(path))


def _replace(path: Path, content: bytes) -> None:
    """Replace a file's content atomically and keep its mode. Raises OSError."""
    check(path)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    layout.replace(path, content)
    path.chmod(mode)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _missing(directory: Path) -> tuple[str, ...]:
    found: list[str] = []
    while not directory.exists():
        found.append(str(directory))
        directory = directory.parent
    return tuple(found)


def _remove_if_empty(directory: Path) -> None:
    if directory.is_dir() and not any(directory.iterdir()):
        directory.rmdir()
