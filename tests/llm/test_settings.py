"""Settings of models: precedence of rules, errors in files, and the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_retry.agent.formats import format_names
from swe_retry.cli.listing import list_models
from swe_retry.core.errors import UserError
from swe_retry.llm.model_settings import (
    ModelSettings,
    SettingsBook,
    load_settings,
    our_settings,
    settings_sha256,
)
from swe_retry.llm.registry import Endpoint


def book(tmp_path: Path, text: str) -> SettingsBook:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return load_settings(path, format_names())


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o", "diff"),
        ("openai/gpt-4.1-mini", "diff"),
        ("openrouter/openai/gpt-5", "diff"),
        ("chatgpt-4o-latest", "diff"),
        ("o3", "diff"),
        ("azure/o4-mini", "diff"),
        ("anthropic/claude-opus-4-5", "diff"),
        ("bedrock/anthropic.claude-3-opus", "diff"),
        ("vertex_ai/claude@20240101", "diff"),
        ("gpt-3.5-turbo", "whole"),
        ("o3x", "whole"),
        ("ollama/llama3", "whole"),
    ],
)
def test_default_formats(model: str, expected: str) -> None:
    assert our_settings().of(model).edit_format == expected


def test_our_file_names_formats_that_there_are() -> None:
    load_settings(None, format_names())


def test_exact_names_before_patterns_and_the_users_file_before_ours(
    tmp_path: Path,
) -> None:
    mine = book(
        tmp_path,
        """
        models:
          "gpt-4*": {temperature: false, context: 10, max_output: 1}
          "*": {context: 20, reasoning_effort: low}
          gpt-4o: {context: 30}
        """,
    )
    settings = mine.of("gpt-4o")
    assert settings.context == 30
    assert settings.temperature is False
    assert settings.max_output == 1
    assert settings.reasoning_effort == "low"
    assert settings.edit_format == "diff"
    assert mine.of("gpt-4-turbo").context == 10
    assert mine.of("ollama/x").context == 20


def test_a_pattern_with_a_slash_is_held_against_the_whole_name(tmp_path: Path) -> None:
    mine = book(tmp_path, 'models: {"ollama/*": {context: 5}, "llama*": {tools: true}}')
    assert mine.of("ollama/llama3").context == 5
    assert mine.of("ollama/llama3").tools
    assert mine.of("vllm/llama3").context is None


def test_aliases_of_the_user_come_first(tmp_path: Path) -> None:
    mine = book(tmp_path, 'aliases: {opus: gpt-4o, "35": gpt-3.5-turbo}')
    assert mine.aliases["opus"] == "gpt-4o"
    assert mine.aliases["35"] == "gpt-3.5-turbo"
    assert mine.aliases["4o"] == "gpt-4o"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "models: {gpt-4o: {colour: red}}",
            "models: gpt-4o: colour: no such key; there are edit_",
        ),
        ("modles: {}", "modles: no such key; there are aliases, models"),
        ("models: {gpt-4o: {temperature: 1}}", "temperature: give true or false"),
        ("models: {gpt-4o: {temperature: 'no'}}", "temperature: give true or false"),
        ("models: {gpt-4o: {context: 8k}}", "context: give a whole number"),
        ("models: {gpt-4o: {context: 0}}", "context: give a number of tokens above 0"),
        ("models: {gpt-4o: {context: true}}", "context: give a whole number"),
        (
            "models: {gpt-4o: {reasoning_effort: huge}}",
            "reasoning_effort: Input should be 'none'",
        ),
        ("models: {gpt-4o: {reminder: here}}", "reminder: Input should be 'system'"),
        (
            "models: {gpt-4o: {edit_format: dif}}",
            "edit_format: 'dif' is none of diff, ",
        ),
        ("models: {gpt-4o: diff}", "models: gpt-4o: give keys with values"),
        ("models: [gpt-4o]", "models: give keys with values"),
        (
            "models: {gpt-4o: {tools: true}, gpt-4o: {}}",
            "is not YAML: 'gpt-4o' stands twice",
        ),
        ("aliases: {35: gpt-3.5-turbo}", "aliases: 35: give a text, in quotes"),
        ("models: {", "is not YAML"),
        ("- a", "give keys with values"),
        ("\0", "is not YAML"),
        ("? {a: b}\n: c", "is not YAML"),
    ],
)
def test_a_wrong_file_is_reported_in_one_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(UserError) as caught:
        book(tmp_path, text)
    message = str(caught.value)
    assert message.startswith(f"models.file {tmp_path / 'mine.yaml'}: ")
    assert problem in message
    assert "\n" not in message


def test_a_file_that_is_not_there_and_one_that_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        load_settings(tmp_path / "none.yaml", format_names())
    with pytest.raises(UserError, match="cannot be read"):
        load_settings(tmp_path, format_names())
    (tmp_path / "odd.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not YAML"):
        load_settings(tmp_path / "odd.yaml", format_names())


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    ours = our_settings()
    assert book(tmp_path, "").of("gpt-4o") == ours.of("gpt-4o")


def test_the_map_fills_missing_settings() -> None:
    settings = Endpoint("gpt-4o").complete_settings(ModelSettings(context=5))
    assert settings.context == 5
    assert settings.max_output == 16384
    assert settings.tools is True
    assert settings.prefill is False
    assert not settings.cache_markers
    empty = ModelSettings()
    reasoning = ModelSettings(reasoning_effort="low")
    assert Endpoint("claude-sonnet-4-5").complete_settings(empty).prefill
    assert not Endpoint("claude-sonnet-4-5").complete_settings(reasoning).prefill
    for name in (
        "anthropic/claude-opus-4-5",
        "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0",
    ):
        assert Endpoint(name).complete_settings(empty).cache_markers
    foreign = Endpoint("claude-like", "http://127.0.0.1:1/v1").complete_settings(empty)
    assert not foreign.cache_markers
    assert Endpoint("ollama/no-such").complete_settings(empty).context == 32_768
    assert Endpoint("openai/no-such").complete_settings(empty).context is None


def test_the_hash_knows_what_is_said_and_of_whom() -> None:
    small = ModelSettings(context=1)
    other = ModelSettings(context=2)
    hashes = set()
    for name in ("a", "b"):
        hashes.add(settings_sha256({name: small}))
        hashes.add(settings_sha256({name: other}))
    assert len(hashes) == 4
    equal = ModelSettings(context=1)
    assert settings_sha256({"a": small}) == settings_sha256({"a": equal})


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    names = [
        "gpt-4o",
        "anthropic/claude-sonnet-4-5",
        "ollama/llama3",
        "openai/no-such",
        "o3",
    ]
    output: list[str] = []
    list_models(names, our_settings(), output.append)
    head, *lines = output
    assert head.split()[:4] == ["model", "alias", "format", "context"]
    rows = {}
    for line in lines:
        name, *cells = line.split()
        rows[name] = " ".join(cells)
    assert rows["gpt-4o"] == "4o,gpt4o diff 128000 16384 2.50 10.00 no yes set"
    assert rows["ollama/llama3"] == "- whole 8192 8192 0.00 0.00 no yes -"
    assert rows["openai/no-such"] == "- whole - - - - no yes set"
    assert rows["o3"].endswith(" no set")
    claude = rows["anthropic/claude-sonnet-4-5"]
    assert claude.endswith(" yes missing ANTHROPIC_API_KEY")
