"""Own the settings: one struct whose fields say what each is called, what it may be and what it means.

Defaults give way to `config.toml`, that to the environment, read once at start. Tables of the file that are not
in `TABLES` belong to siblings of this program and are not looked at. `manual` writes the README's table from here.
"""

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal, cast, get_args, get_type_hints

import msgspec

from openmem_store.parsers import TOKENS, Parser, choice, flag, hosts, number, text, url, whole
from openmem_store.sid import ASCII_SPACE

PROXY, STORE, COMPACTION = TABLES = ("context_proxy", "context_store", "compaction")
"""Our tables of the file."""

_MODELS = "models"


class SettingsError(ValueError):
    """A setting that cannot be used; the message names the key, the value and what is allowed."""


class Source(msgspec.Struct, frozen=True):
    """Where one field's value comes from and what it may be."""

    variable: str
    table: str | None
    """Table of the file; None: the environment only, because a file is easily shared."""
    parse: Parser
    renamed: str | None = None
    """Key in the table; None: the field's name."""


class Place(msgspec.Struct, frozen=True):
    """A folder or file that a variable may name."""

    variable: str
    default: str
    meaning: str


STATE = Place("OPENMEM_STATE_DIR", "~/.local/share/openmem", "The store is `context` in it.")
CONFIG = Place("OPENMEM_CONFIG", "~/.config/openmem/config.toml", "The settings file.")

Mode = Literal["trim", "observe"]
Socket = Literal["refuse", "pass"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a person can set, in the order in which it is documented."""

    root: Path
    """Where the store is: `context` inside the state directory."""
    trim_tokens: Annotated[int, Source("CONTEXT_TRIM_TOKENS", PROXY, TOKENS)] = 120_000
    """Prompt tokens at which a trim runs."""
    trim_to_fraction: Annotated[float, Source("CONTEXT_TRIM_TO_FRACTION", PROXY, number(0, 1))] = 0.3
    """Share of that under which a long turn keeps its own older steps."""
    cold_trim_fraction: Annotated[float, Source("CONTEXT_COLD_TRIM_FRACTION", PROXY, number(0, 1))] = 0.0
    """Share of the threshold that trims a thread whose cache has expired; 0 = off."""
    compress_tokens: Annotated[int, Source("CONTEXT_COMPRESS_TOKENS", PROXY, whole(0, 20_000_000))] = 4_000
    """Size above which a tool result is shown as head and tail; 0 = off."""
    mode: Annotated[Mode, Source("CONTEXT_MODE", PROXY, choice(*get_args(Mode)))] = "trim"
    """`observe` stores only, and changes no byte of a conversation that was never changed."""
    proxy_enabled: Annotated[bool, Source("CONTEXT_PROXY_ENABLED", PROXY, flag, "enabled")] = True
    """0 = no new trim, compression or instruction."""
    standing_instruction: Annotated[bool, Source("CONTEXT_STANDING_INSTRUCTION", PROXY, flag)] = True
    """0 = no sentence in the system prompt that explains the notes."""
    require_tools: Annotated[bool, Source("CONTEXT_REQUIRE_TOOLS", PROXY, flag)] = True
    """0 = trim even where the search tools are not offered."""
    record_all: Annotated[bool, Source("CONTEXT_RECORD_ALL", PROXY, flag)] = False
    """1 = also record requests that name no session."""
    codex_websocket: Annotated[Socket, Source("CONTEXT_CODEX_WEBSOCKET", PROXY, choice(*get_args(Socket)))] = "refuse"
    """`pass` leaves the WebSocket of Codex alone: such a session is neither stored nor trimmed."""
    provider_hosts: Annotated[tuple[str, ...], Source("CONTEXT_PROVIDER_HOSTS", PROXY, hosts)] = ()
    """More hosts to intercept: `llm.example.com`, `llm.example.com:8443`, `*.example.com`."""
    chars_per_token: Annotated[float, Source("CONTEXT_CHARS_PER_TOKEN", PROXY, number(0.5, 8))] = 2.5
    """Estimate until the provider has reported its own count."""
    ttl_days: Annotated[int, Source("CONTEXT_STORE_TTL_DAYS", STORE, whole(0, 36_500))] = 30
    """Days a session is kept after its last request; 0 = for ever."""
    embedding_model: Annotated[str, Source("CONTEXT_EMBEDDING_MODEL", STORE, text)] = ""
    """Turns vectors on: `local`, or the name of a model behind the URL below."""
    embedding_url: Annotated[str, Source("CONTEXT_EMBEDDING_URL", STORE, url)] = "http://127.0.0.1:11434/v1"
    """Where an OpenAI-compatible server answers `/embeddings`; the default is Ollama's."""
    embedding_api_key: Annotated[str, Source("CONTEXT_EMBEDDING_API_KEY", None, text)] = ""
    """Its bearer token; in the environment only."""
    embedding_timeout_s: Annotated[float, Source("CONTEXT_EMBEDDING_TIMEOUT_S", STORE, number(0.1, 3_600))] = 30.0
    """Seconds per message of a call."""
    embedding_max_chars: Annotated[int, Source("CONTEXT_EMBEDDING_MAX_CHARS", STORE, whole(1, 1_000_000))] = 4_000
    """Characters of each message's head that are embedded."""
    bank: Annotated[str, Source("CONTEXT_COMPACTION_BANK", COMPACTION, text)] = ""
    """Memory bank that the hooks register new sessions with; a trim recalls from it."""
    recall: Annotated[bool, Source("CONTEXT_COMPACTION_RECALL", COMPACTION, flag)] = True
    """0 = a trim recalls nothing."""
    recall_max_chars: Annotated[
        int, Source("CONTEXT_COMPACTION_MAX_CHARS", COMPACTION, whole(0, 1_000_000), "max_chars")
    ] = 12_000
    """Characters of the recalled block, its frame included."""
    recall_url: Annotated[str, Source("CONTEXT_COMPACTION_URL", COMPACTION, url, "url")] = "http://127.0.0.1:8888"
    """The memory provider's HTTP API (Hindsight)."""
    recall_api_key: Annotated[str, Source("CONTEXT_COMPACTION_API_KEY", None, text)] = ""
    """Its bearer token; in the environment only."""
    recall_timeout_s: Annotated[
        float, Source("CONTEXT_COMPACTION_TIMEOUT_S", COMPACTION, number(0.1, 8), "timeout_s")
    ] = 2.0
    """Seconds a trim waits for the memory provider."""
    models: dict[str, int] = {}
    """Trim thresholds by model name or glob."""

    def threshold(self, model: str | None) -> int:
        """Return the trim threshold of `model`, in tokens.

        An exact name wins over a glob, a longer glob over a shorter one; no match, or None, gives
        `trim_tokens`.
        """
        if model is None:
            return self.trim_tokens
        exact = self.models.get(model)
        if exact is not None:
            return exact
        matching = [glob for glob in self.models if fnmatchcase(model, glob)]
        return self.models[max(matching, key=len)] if matching else self.trim_tokens

    def __repr__(self) -> str:
        """Show every field but the keys, so that no log or traceback does."""
        fields = msgspec.structs.asdict(self)
        hidden = {name: "…" for name, source in SOURCES.items() if source.table is None and fields[name]}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in {**fields, **hidden}.items())})"


def _sources() -> Iterator[tuple[str, Source]]:
    """Yield what the fields are annotated with."""
    for name, hint in get_type_hints(Settings, include_extras=True).items():
        for each in getattr(hint, "__metadata__", ()):
            if isinstance(each, Source):
                yield name, each


SOURCES = dict(_sources())
"""By field; every setting but the state directory, the file's own place and the thresholds per model."""


def key(field: str) -> str:
    """Return what a field is called in its table."""
    return SOURCES[field].renamed or field


class Loaded(msgspec.Struct, frozen=True):
    settings: Settings
    warnings: tuple[str, ...]
    """One line each, for the terminal: what was not understood and therefore ignored."""


def load(environ: Mapping[str, str], *, config: Path | None = None) -> Loaded:
    """Read the settings. `config` overrides `$OPENMEM_CONFIG`.

    An empty variable counts as unset. Raises SettingsError for a value out of range and for a file
    that cannot be read or is not TOML; a file that is not there is no error.
    """
    path, named = _config_path(environ, config)
    document = _document(path)
    warnings: list[str] = []
    if document is None and named:
        warnings.append(f"{path}: no such file; defaults and the environment apply")
    tables = {name: _table(path, document or {}, name) for name in TABLES}
    values: dict[str, object] = {"root": state_directory(environ) / "context"}
    for field, source in SOURCES.items():
        if source.table is not None and key(field) in tables[source.table]:
            place = f"{path}: [{source.table}] {key(field)}"
            values[field] = _parsed(source.parse, place, tables[source.table].pop(key(field)))
        variable = environ.get(source.variable, "").strip(ASCII_SPACE)
        if variable:
            values[field] = _parsed(source.parse, source.variable, variable)
    values["models"] = {
        glob: _parsed(TOKENS, f"{path}: [context_proxy.models] {glob!r}", value)
        for glob, value in _table(path, tables["context_proxy"], _MODELS, within="context_proxy.").items()
    }
    tables["context_proxy"].pop(_MODELS, None)
    warnings += [
        f"{path}: [{table}] {unknown} is not a setting{_meant(table, unknown)}"
        for table in TABLES
        for unknown in tables[table]
    ]
    return Loaded(msgspec.convert(values, Settings), tuple(warnings))


def _meant(table: str, unknown: str) -> str:
    """Return what a person may have meant, for the end of a sentence."""
    known = [key(field) for field, source in SOURCES.items() if source.table == table]
    close = difflib.get_close_matches(unknown, known, 1)
    return f" ({close[0]} is one)" if close else ""


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return `$OPENMEM_STATE_DIR` without surrounding ASCII whitespace, or its default when that is empty."""
    return _absolute(environ, environ.get(STATE.variable, "").strip(ASCII_SPACE) or STATE.default)


def config_path(environ: Mapping[str, str]) -> Path:
    """Return the settings file: `$OPENMEM_CONFIG`, or its usual place when that is empty. It need not be there."""
    return _config_path(environ, None)[0]


def _config_path(environ: Mapping[str, str], config: Path | None) -> tuple[Path, bool]:
    """Return the file and whether a person named it."""
    if config is not None:
        return config, True
    value = environ.get(CONFIG.variable, "").strip(ASCII_SPACE)
    return _absolute(environ, value or CONFIG.default), bool(value)


def _absolute(environ: Mapping[str, str], value: str) -> Path:
    """Expand a leading `~` by the given environment, and anchor a relative path where the process started."""
    if value == "~" or value.startswith("~/"):
        home = environ.get("HOME") or str(Path.home())
        return Path(home + value[1:]).absolute()
    return Path(value).absolute()


def _document(path: Path) -> dict[str, object] | None:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); fix its permissions") from error
    except ValueError as error:  # TOML's errors and those of UTF-8
        raise SettingsError(f"{path}: not valid TOML: {error}") from error


def _table(path: Path, parent: Mapping[str, object], name: str, *, within: str = "") -> dict[str, object]:
    """Return a copy of a table, empty when it is not there."""
    value = parent.get(name, {})
    if not isinstance(value, dict):
        raise SettingsError(f"{path}: {within}{name} = {value!r} must be a table, [{within}{name}]")
    return dict(cast(dict[str, object], value))


def _parsed(parse: Parser, place: str, value: object) -> object:
    try:
        return parse(value)
    except ValueError as error:
        raise SettingsError(f"{place} = {error}") from error
