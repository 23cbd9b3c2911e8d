"""Own the settings: one table of names, sources and ranges, read once at start.

Defaults give way to `config.toml`, that to the environment. Tables of the file that are not in
`_TABLES` belong to siblings of this program and are not looked at.
"""

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, cast

import msgspec

from openmem_store.parsers import TOKENS, Parser, choice, flag, hosts, number, text, url, whole
from openmem_store.sid import ASCII_SPACE


class SettingsError(ValueError):
    """A setting that cannot be used; the message names the key, the value and what is allowed."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a person can set."""

    root: Path
    """Where the store is: `context` inside the state directory."""
    proxy_enabled: bool = True
    """False: nothing is cut, compressed or instructed anew."""
    mode: Literal["trim", "observe"] = "trim"
    """`observe` stores and changes no byte of a thread that was never changed."""
    standing_instruction: bool = True
    chars_per_token: float = 2.5
    """Code points per token before the first usage report of a thread."""
    trim_tokens: int = 120_000
    """Estimated prompt tokens at which a trim runs; see `threshold`."""
    trim_to_fraction: float = 0.3
    """Share of the threshold under which a cut turn's own older steps are kept."""
    compress_tokens: int = 4_000
    """Tokens above which a tool result is shown compressed; 0 turns it off."""
    require_tools: bool = True
    """Trim only where the agent can search what was removed."""
    record_all: bool = False
    """Record requests that name no session and have none of our tools."""
    provider_hosts: tuple[str, ...] = ()
    """Hosts to intercept beside the built-in ones: lower case, `*.` for any subdomain, `:port` where it is not 443."""
    codex_websocket: Literal["refuse", "pass"] = "refuse"
    """`refuse` makes Codex send its whole history over HTTP, where it can be trimmed; `pass` lets its WebSocket be."""
    cold_trim_fraction: float = 0.0
    """Share of the threshold that trims a thread whose cache has expired; 0 turns it off."""
    ttl_days: int = 30
    """Days a session's files outlive their last change; 0 keeps everything."""
    embedding_model: str = ""
    """Empty: no vectors."""
    embedding_url: str = "http://127.0.0.1:11434/v1"
    embedding_api_key: str = ""
    """Bearer token of the embeddings endpoint; empty sends none."""
    embedding_timeout_s: float = 30.0
    """Seconds per row of a call."""
    embedding_max_chars: int = 4_000
    """Code points of each row's head that are embedded."""
    recall: bool = True
    recall_max_chars: int = 12_000
    """Code points of the whole recalled block, frame included."""
    recall_url: str = "http://127.0.0.1:8888"
    """Where the memory provider's HTTP API is."""
    recall_api_key: str = ""
    """Bearer token of the memory provider; empty sends none."""
    recall_timeout_s: float = 2.0
    """Seconds a trim waits for the memory provider."""
    bank: str = ""
    """Memory bank that the hooks register new sessions with; empty for none."""
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
        hidden = {name: "…" for name in ("embedding_api_key", "recall_api_key") if getattr(self, name)}
        fields = {**msgspec.structs.asdict(self), **hidden}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


class Loaded(msgspec.Struct, frozen=True):
    settings: Settings
    warnings: tuple[str, ...]
    """One line each, for the terminal: what was not understood and therefore ignored."""


class Source(msgspec.Struct, frozen=True):
    """Where one field's value comes from and what it may be."""

    field: str
    variable: str
    table: str | None
    """Table of the file; None: the environment only, because a file is easily shared."""
    parse: Parser
    renamed: str | None = None
    """Key in the table; None: the field's name."""

    @property
    def key(self) -> str:
        return self.renamed or self.field


_PROXY, _STORE, _COMPACTION = _TABLES = ("context_proxy", "context_store", "compaction")
_MODELS = "models"

SOURCES = (
    Source("proxy_enabled", "CONTEXT_PROXY_ENABLED", _PROXY, flag, "enabled"),
    Source("mode", "CONTEXT_MODE", _PROXY, choice("trim", "observe")),
    Source("standing_instruction", "CONTEXT_STANDING_INSTRUCTION", _PROXY, flag),
    Source("chars_per_token", "CONTEXT_CHARS_PER_TOKEN", _PROXY, number(0.5, 8)),
    Source("trim_tokens", "CONTEXT_TRIM_TOKENS", _PROXY, TOKENS),
    Source("trim_to_fraction", "CONTEXT_TRIM_TO_FRACTION", _PROXY, number(0, 1)),
    Source("compress_tokens", "CONTEXT_COMPRESS_TOKENS", _PROXY, whole(0, 20_000_000)),
    Source("require_tools", "CONTEXT_REQUIRE_TOOLS", _PROXY, flag),
    Source("record_all", "CONTEXT_RECORD_ALL", _PROXY, flag),
    Source("provider_hosts", "CONTEXT_PROVIDER_HOSTS", _PROXY, hosts),
    Source("codex_websocket", "CONTEXT_CODEX_WEBSOCKET", _PROXY, choice("refuse", "pass")),
    Source("cold_trim_fraction", "CONTEXT_COLD_TRIM_FRACTION", _PROXY, number(0, 1)),
    Source("ttl_days", "CONTEXT_STORE_TTL_DAYS", _STORE, whole(0, 36_500)),
    Source("embedding_model", "CONTEXT_EMBEDDING_MODEL", _STORE, text),
    Source("embedding_url", "CONTEXT_EMBEDDING_URL", _STORE, url),
    Source("embedding_api_key", "CONTEXT_EMBEDDING_API_KEY", None, text),
    Source("embedding_timeout_s", "CONTEXT_EMBEDDING_TIMEOUT_S", _STORE, number(0.1, 3_600)),
    Source("embedding_max_chars", "CONTEXT_EMBEDDING_MAX_CHARS", _STORE, whole(1, 1_000_000)),
    Source("recall", "CONTEXT_COMPACTION_RECALL", _COMPACTION, flag),
    Source("recall_max_chars", "CONTEXT_COMPACTION_MAX_CHARS", _COMPACTION, whole(0, 1_000_000), "max_chars"),
    Source("recall_url", "CONTEXT_COMPACTION_URL", _COMPACTION, url, "url"),
    Source("recall_api_key", "CONTEXT_COMPACTION_API_KEY", None, text),
    Source("recall_timeout_s", "CONTEXT_COMPACTION_TIMEOUT_S", _COMPACTION, number(0.1, 8), "timeout_s"),
    Source("bank", "CONTEXT_COMPACTION_BANK", _COMPACTION, text),
)
"""Every setting but the state directory, the file's own place and the thresholds per model."""


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
    tables = {name: _table(path, document or {}, name) for name in _TABLES}
    values: dict[str, object] = {"root": state_directory(environ) / "context"}
    for source in SOURCES:
        if source.table is not None and source.key in tables[source.table]:
            place = f"{path}: [{source.table}] {source.key}"
            values[source.field] = _parsed(source.parse, place, tables[source.table].pop(source.key))
        variable = environ.get(source.variable, "").strip(ASCII_SPACE)
        if variable:
            values[source.field] = _parsed(source.parse, source.variable, variable)
    values["models"] = {
        glob: _parsed(TOKENS, f"{path}: [context_proxy.models] {glob!r}", value)
        for glob, value in _table(path, tables["context_proxy"], _MODELS, within="context_proxy.").items()
    }
    tables["context_proxy"].pop(_MODELS, None)
    warnings += [f"{path}: [{table}] {key} is not a setting" for table in _TABLES for key in tables[table]]
    return Loaded(msgspec.convert(values, Settings), tuple(warnings))


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return `$OPENMEM_STATE_DIR` without surrounding ASCII whitespace, or its default when that is empty."""
    value = environ.get("OPENMEM_STATE_DIR", "").strip(ASCII_SPACE)
    return _absolute(environ, value or "~/.local/share/openmem")


def config_path(environ: Mapping[str, str]) -> Path:
    """Return the settings file: `$OPENMEM_CONFIG`, or its usual place when that is empty. It need not be there."""
    return _config_path(environ, None)[0]


def _config_path(environ: Mapping[str, str], config: Path | None) -> tuple[Path, bool]:
    """Return the file and whether a person named it."""
    if config is not None:
        return config, True
    value = environ.get("OPENMEM_CONFIG", "").strip(ASCII_SPACE)
    return _absolute(environ, value or "~/.config/openmem/config.toml"), bool(value)


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
