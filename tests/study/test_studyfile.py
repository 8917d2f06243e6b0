"""The file of a study: one line for each mistake, which names the arm and the setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_retry.core.errors import UserError
from swe_retry.study.studyfile import Study

ARMS = "arms: {a: {models: {names: [x]}}, b: {agent: {name: codex}}}\n"
DEMO = "dataset: demo\n"


def read(folder: Path, text: str) -> Study:
    path = folder / "s.yaml"
    path.write_text(text)
    return Study.read(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'dataset': Field required"),
        (DEMO, "'arms': Field required"),
        (DEMO + "arms: {a: {models: {names: [x]}}}", "'arms': Dictionary should have"),
        (DEMO + "arms: {a b: {models: {}}, c: {}}", "'arms.a b.[key]': String should"),
        (DEMO + "arms: {a: , b: {}}", "'arms.a': Input should be a valid dictionary"),
        (DEMO + "arms: [a", "is not YAML: "),
        (
            DEMO + ARMS + "modles: {tries: 2}",
            "s.yaml: there is no setting modles.tries",
        ),
        (
            DEMO + ARMS + "models: {tries: 0}",
            "s.yaml: models.tries 0: must be at least 1",
        ),
        (
            DEMO + "arms: {a: {models: {names: [x], trie: 1}}, b: {}}",
            "s.yaml: arm a: there is no setting models.trie; did you mean models.",
        ),
        (
            DEMO + "arms: {a: {models: {names: [x], tries: 0}}, b: {}}",
            "s.yaml: arm a: models.tries 0: must be at least 1",
        ),
        (
            DEMO + "arms: {a: {models: {tries: 1}}, b: {}}",
            "s.yaml: arm a: give models or an agent, as ",
        ),
        (
            DEMO + "arms: {a: {budget: {usd: 1}}, b: {}}",
            "s.yaml: arm a: budget.usd is for all arms; give it outside of arms",
        ),
        (
            DEMO + "arms: {a: {instances: {slice: '0:3'}}, b: {}}",
            "s.yaml: arm a: instances.slice is for all arms; ",
        ),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(UserError) as raised:
        read(tmp_path, text).run_settings("a")
    message = str(raised.value)
    assert message.startswith(str(tmp_path / "s.yaml"))
    assert problem in message
    assert "\n" not in message


def test_an_arm_has_what_all_share_and_its_own(tmp_path: Path) -> None:
    shared = "models: {tries: 2}\nbudget: {usd: 40}\nevaluation: {evaluator: local}\n"
    study = read(tmp_path, DEMO + ARMS + shared)
    settings = study.run_settings("a")
    assert settings.models.names == ("x",)
    assert settings.models.tries == 2
    assert settings.budget.usd == 40
    assert settings.instances.dataset == "demo"
    assert settings.folders.run == "s--a"
    assert study.run_settings("b").agent.name == "codex"
