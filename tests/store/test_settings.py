from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from openmem_store.settings import SOURCES, Settings, SettingsError, key, load

File = Callable[[str], Path]

DEFAULTS = {
    "proxy_enabled": True,
    "mode": "trim",
    "standing_instruction": True,
    "chars_per_token": 2.5,
    "trim_tokens": 120_000,
    "trim_to_fraction": 0.3,
    "compress_tokens": 4_000,
    "require_tools": True,
    "record_all": False,
    "provider_hosts": (),
    "codex_websocket": "refuse",
    "cold_trim_fraction": 0.0,
    "ttl_days": 30,
    "embedding_model": "",
    "embedding_url": "http://127.0.0.1:11434/v1",
    "embedding_api_key": "",
    "embedding_timeout_s": 30.0,
    "embedding_max_chars": 4_000,
    "recall": True,
    "recall_max_chars": 12_000,
    "recall_url": "http://127.0.0.1:8888",
    "recall_api_key": "",
    "recall_timeout_s": 2.0,
    "bank": "",
    "models": {},
}

OTHERS: dict[str, tuple[str, str, object]] = {
    "proxy_enabled": ("0", "false", False),
    "mode": ("observe", "'observe'", "observe"),
    "standing_instruction": ("0", "false", False),
    "chars_per_token": ("3.5", "3.5", 3.5),
    "trim_tokens": ("90000", "90000", 90_000),
    "trim_to_fraction": ("0.5", "0.5", 0.5),
    "compress_tokens": ("0", "0", 0),
    "require_tools": ("0", "false", False),
    "record_all": ("1", "true", True),
    "provider_hosts": ("a.b,c.d", "['a.b', 'c.d']", ("a.b", "c.d")),
    "codex_websocket": ("pass", "'pass'", "pass"),
    "cold_trim_fraction": ("0.4", "0.4", 0.4),
    "ttl_days": ("7", "7", 7),
    "embedding_model": ("m", "'m'", "m"),
    "embedding_url": ("http://h/v1", "'http://h/v1'", "http://h/v1"),
    "embedding_timeout_s": ("5", "5", 5.0),
    "embedding_max_chars": ("100", "100", 100),
    "recall": ("0", "false", False),
    "recall_max_chars": ("0", "0", 0),
    "recall_url": ("http://m:1/", '"http://m:1"', "http://m:1"),
    "recall_timeout_s": ("3", "3.0", 3.0),
    "bank": ("team", '"team"', "team"),
}
"""By field: text of a variable, TOML of the file, and the value both mean."""


@pytest.fixture
def file(tmp_path: Path) -> File:
    def write(content: str) -> Path:
        path = tmp_path / "config.toml"
        path.write_text(content)
        return path

    return write


def test_without_anything_the_defaults_apply(tmp_path: Path) -> None:
    loaded = load({"HOME": str(tmp_path)})
    assert loaded.settings == Settings(root=tmp_path / ".local/share/openmem/context")
    assert msgspec.structs.asdict(loaded.settings) == {"root": loaded.settings.root, **DEFAULTS}
    assert loaded.warnings == ()


def test_every_field_has_a_source_and_every_source_a_field() -> None:
    assert SOURCES.keys() | {"root", "models"} == set(Settings.__struct_fields__)
    assert len({source.variable for source in SOURCES.values()}) == len(SOURCES)


@pytest.mark.parametrize("field", [field for field, source in SOURCES.items() if source.table])
def test_the_environment_wins_over_the_file_and_the_file_over_the_default(field: str, file: File) -> None:
    source = SOURCES[field]
    text, toml, value = OTHERS[field]
    default = DEFAULTS[field]
    given = {source.variable: f" {text}\n"}
    assert getattr(load(given, config=file("")).settings, field) == value
    path = file(f"[{source.table}]\n{key(field)} = {toml}\n")
    assert getattr(load({}, config=path).settings, field) == value
    empty = load({source.variable: " "}, config=path)
    assert getattr(empty.settings, field) == value, "an empty variable counts as unset"
    if default not in ("", ()):
        back = load({source.variable: str(default)}, config=path)
        assert getattr(back.settings, field) == default


def test_the_contracts_names_are_the_sources() -> None:
    found = {source.variable: (source.table, key(field)) for field, source in SOURCES.items() if source.table}
    assert found == {
        "CONTEXT_PROXY_ENABLED": ("context_proxy", "enabled"),
        "CONTEXT_MODE": ("context_proxy", "mode"),
        "CONTEXT_STANDING_INSTRUCTION": ("context_proxy", "standing_instruction"),
        "CONTEXT_CHARS_PER_TOKEN": ("context_proxy", "chars_per_token"),
        "CONTEXT_TRIM_TOKENS": ("context_proxy", "trim_tokens"),
        "CONTEXT_TRIM_TO_FRACTION": ("context_proxy", "trim_to_fraction"),
        "CONTEXT_COMPRESS_TOKENS": ("context_proxy", "compress_tokens"),
        "CONTEXT_REQUIRE_TOOLS": ("context_proxy", "require_tools"),
        "CONTEXT_RECORD_ALL": ("context_proxy", "record_all"),
        "CONTEXT_PROVIDER_HOSTS": ("context_proxy", "provider_hosts"),
        "CONTEXT_CODEX_WEBSOCKET": ("context_proxy", "codex_websocket"),
        "CONTEXT_COLD_TRIM_FRACTION": ("context_proxy", "cold_trim_fraction"),
        "CONTEXT_STORE_TTL_DAYS": ("context_store", "ttl_days"),
        "CONTEXT_EMBEDDING_MODEL": ("context_store", "embedding_model"),
        "CONTEXT_EMBEDDING_URL": ("context_store", "embedding_url"),
        "CONTEXT_EMBEDDING_TIMEOUT_S": ("context_store", "embedding_timeout_s"),
        "CONTEXT_EMBEDDING_MAX_CHARS": ("context_store", "embedding_max_chars"),
        "CONTEXT_COMPACTION_RECALL": ("compaction", "recall"),
        "CONTEXT_COMPACTION_MAX_CHARS": ("compaction", "max_chars"),
        "CONTEXT_COMPACTION_URL": ("compaction", "url"),
        "CONTEXT_COMPACTION_TIMEOUT_S": ("compaction", "timeout_s"),
        "CONTEXT_COMPACTION_BANK": ("compaction", "bank"),
    }
    alone = {source.variable for source in SOURCES.values() if source.table is None}
    assert alone == {"CONTEXT_EMBEDDING_API_KEY", "CONTEXT_COMPACTION_API_KEY"}


@pytest.mark.parametrize(
    ("value", "state"),
    [
        ("/data/mem", "/data/mem"),
        (" \t\n\v\f\r/data/mem\r\f\v\n\t ", "/data/mem"),
        ("", "/home/me/.local/share/openmem"),
        (" \t\n\v\f\r", "/home/me/.local/share/openmem"),
        ("~/mem", "/home/me/mem"),
        ("~", "/home/me"),
        ("/data/\u00a0", "/data/\u00a0"),
    ],
)
def test_the_state_directory_is_trimmed_of_ascii_whitespace(value: str, state: str) -> None:
    assert load({"HOME": "/home/me", "OPENMEM_STATE_DIR": value}).settings.root == Path(state) / "context"


def test_a_relative_state_directory_is_anchored_where_the_process_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load({"OPENMEM_STATE_DIR": "mem"}).settings.root == tmp_path / "mem/context"


def test_the_file_is_found_in_the_home_or_where_the_environment_says(tmp_path: Path) -> None:
    usual = tmp_path / ".config/openmem/config.toml"
    usual.parent.mkdir(parents=True)
    usual.write_text("[context_store]\nttl_days = 1")
    named = tmp_path / "mine.toml"
    named.write_text("[context_store]\nttl_days = 2")
    home = {"HOME": str(tmp_path)}
    assert load(home).settings.ttl_days == 1
    assert load(home | {"OPENMEM_CONFIG": " "}).settings.ttl_days == 1
    assert load(home | {"OPENMEM_CONFIG": str(named)}).settings.ttl_days == 2
    assert load(home | {"OPENMEM_CONFIG": str(named)}, config=usual).settings.ttl_days == 1


def test_a_named_file_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    assert load({"OPENMEM_CONFIG": str(path)}).warnings == (
        f"{path}: no such file; defaults and the environment apply",
    )


def test_an_unknown_key_in_our_tables_warns_and_other_tables_are_not_ours(file: File) -> None:
    path = file(
        "top = 1\n[context_proxy]\ntrim_token = 5\nembedding_api_key = 'x'\n[context_store]\nttl_days = 3\n"
        "[compaction]\nmodel = 'm'\n[hindsight]\nurl = 1\n[context_proxy.models]\n'a-*' = 5\n"
    )
    loaded = load({}, config=path)
    assert loaded.warnings == (
        f"{path}: [context_proxy] trim_token is not a setting (trim_tokens is one)",
        f"{path}: [context_proxy] embedding_api_key is not a setting",
        f"{path}: [compaction] model is not a setting",
    )
    assert (loaded.settings.ttl_days, loaded.settings.models) == (3, {"a-*": 5})


@pytest.mark.parametrize("field", OTHERS)
def test_a_bad_value_names_its_place_and_what_is_allowed(field: str, file: File) -> None:
    source = SOURCES[field]
    if field not in ("embedding_model", "bank"):  # any text names one
        with pytest.raises(SettingsError, match=f"^{source.variable} = .*must be"):
            load({source.variable: "not://good"}, config=file(""))
    path = file(f"[{source.table}]\n{key(field)} = 1979-05-27\n")
    with pytest.raises(SettingsError) as caught:
        load({}, config=path)
    assert str(caught.value).startswith(f"{path}: [{source.table}] {key(field)} = ")


def test_a_bad_value_is_shown(file: File) -> None:
    with pytest.raises(SettingsError) as caught:
        load({"CONTEXT_TRIM_TOKENS": "many"}, config=file(""))
    assert str(caught.value) == "CONTEXT_TRIM_TOKENS = 'many': must be a whole number from 1 to 20000000"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[context_proxy", "not valid TOML"),
        ("context_proxy = 1", r"context_proxy = 1 must be a table, \[context_proxy\]"),
        ("[context_proxy]\nmodels = 1", r"models = 1 must be a table, \[context_proxy.models\]"),
        ("[context_proxy.models]\n'a-*' = 0", r"\[context_proxy.models\] 'a-\*' = 0: must be a whole number"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(file: File, content: str, message: str) -> None:
    path = file(content)
    with pytest.raises(SettingsError, match=message) as caught:
        load({}, config=path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_file_that_is_not_text_or_not_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="not valid TOML"):
        load({}, config=path)
    with pytest.raises(SettingsError, match="cannot be read"):
        load({}, config=tmp_path)


@pytest.mark.parametrize(
    ("model", "threshold"),
    [
        ("some-large-2", 3),
        ("some-large-1", 2),
        ("some-small", 1),
        ("other", 120_000),
        ("odd[1m]", 4),
        ("", 120_000),
        (None, 120_000),
    ],
)
def test_the_most_particular_name_gives_the_threshold(model: str | None, threshold: int) -> None:
    models = {"some-*": 1, "some-large-2": 3, "some-large-*": 2, "odd[1m]": 4}
    assert Settings(root=Path("/x"), models=models).threshold(model) == threshold


def test_the_key_of_the_embeddings_endpoint_comes_from_the_environment_and_is_never_shown(file: File) -> None:
    loaded = load({"CONTEXT_EMBEDDING_API_KEY": "sk-secret"}, config=file(""))
    assert loaded.settings.embedding_api_key == "sk-secret"
    assert "secret" not in f"{loaded} {loaded!r} {loaded.settings} {loaded.settings!r}"


def test_no_key_is_shown_by_a_log_or_a_traceback() -> None:
    shown = repr(Settings(root=Path("/s"), embedding_api_key="k-one", recall_api_key="k-two"))
    assert "k-" not in shown
    assert "recall_api_key='…'" in shown
