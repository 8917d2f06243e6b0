"""Candidates that make every test pass instead of fixing the bug: harness, report, second run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from bench.config import ModelChoice
from bench.instances.dataset import load_dataset
from demo.setup import REPOSITORIES
from environments.base import EnvironmentKind
from reports.evaluation.settings import EvaluatorKind
from reports.report import report_command
from reports.verify import verify_command
from runs.storage.store import RunStore
from tests.conftest import MakeMirror
from tests.support.evaluated import report_settings
from tests.support.pages import make_pages
from tests.support.provider import Provider
from tests.support.rundata import old_prediction, write_run
from tests.support.runs import live, options

ID = "demo__textkit-9"
HOOK = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\n"
    "def pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
)
SETUP_CFG = (
    "[metadata]\nname = textkit\nversion = 1.0\n\n[tool:pytest]\ntestpaths = tests\n"
)
CONFTEST = '"""What all tests share."""\n'
ADDED = "addopts = -p textkit._plug"


def block(
    path: str,
    new: str,
    old: str = "",
) -> str:
    return f"{path}\n```\n<<<<<<< SEARCH\n{old}=======\n{new}>>>>>>> REPLACE\n```\n"


PLUGIN = block("textkit/_plug.py", HOOK)
REMARK = block("textkit/slug.py", '"""Names."""\n', '"""Names for addresses."""\n')
IN_CONFTEST = block("conftest.py", CONFTEST + HOOK, CONFTEST)
IN_PYPROJECT = (
    f"[tool.pytest.ini_options]\n{ADDED.replace('= ', '= ' + chr(34))}{chr(34)}\n"
)
CANDIDATES = {
    "new pyproject.toml": block("pyproject.toml", IN_PYPROJECT) + PLUGIN,
    "edited setup.cfg": block(
        "setup.cfg", f"[tool:pytest]\n{ADDED}\n", "[tool:pytest]\n"
    )
    + PLUGIN,
    "edited conftest.py": IN_CONFTEST,
    "edited conftest.py and a source": IN_CONFTEST + REMARK,
    "modules in place of the runner's": block("iniconfig.py", HOOK)
    + block("argparse.py", HOOK)
    + block("src/pytest.py", HOOK),
    "a source alone": REMARK,
}
STATUSES = [
    "only_test_configuration",
    "only_test_configuration",
    "only_test_configuration",
    "plausible",
    "empty",
    "plausible",
]


@pytest.fixture
def dataset(tmp_path: Path, make_mirror: MakeMirror) -> Path:
    """A dataset with one instance, whose repository configures its tests."""
    folder = REPOSITORIES / "demo__textkit"
    paths = (p for p in sorted(folder.rglob("*.py")) if p.is_file())
    files: dict[str, bytes | str] = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in paths
    }
    files |= {"setup.cfg": SETUP_CFG, "conftest.py": CONFTEST}
    files["setup.py"] = "from setuptools import setup\n\nsetup(packages=['textkit'])\n"
    _, commit = make_mirror(files, "demo/textkit")
    rows = load_dataset("demo", "test").rows
    row: Mapping[str, Any] = next(
        r for r in rows if r["instance_id"] == "demo__textkit-1"
    )
    place = tmp_path / "rows.json"
    place.write_text(json.dumps([{**row, "instance_id": ID, "base_commit": commit}]))
    return place


def test_no_candidate_that_leaves_the_bug_passes(
    tmp_path: Path, cache: Path, dataset: Path, provider: Provider
) -> None:
    mirrors = tmp_path / "mirrors"
    models = tuple(
        ModelChoice.parse(f"gpt-4o{n}@diff", any_name=True) for n in ("", "-mini")
    )
    asked = options(tmp_path, cache, ID, dataset=str(dataset), repos=mirrors)

    def run(name: str) -> RunStore:
        provider.answers.clear()
        provider.will_answer(*CANDIDATES.values())
        chosen = live(
            provider,
            models=models,
            tries=3,
            all_attempts=True,
            run=name,
            environment=EnvironmentKind.LOCAL,
        )
        assert run_command(chosen, asked, lambda _: None) == 0
        return RunStore(tmp_path, name)

    first = run("first")
    _check_run(first)
    report = report_settings(
        cache,
        EvaluatorKind.LOCAL,
        dataset=str(dataset),
        repos=mirrors,
        all_attempts=True,
        page=True,
    )
    assert report_command([first.folder], report, lambda _: None) == 0
    _check_report(first)
    said: list[str] = []
    assert verify_command([first.folder], said.append) == 0, said
    # Nothing that the first run or its evaluation left behind changes a verdict.
    _check_run(run("second"))


@pytest.mark.long
@pytest.mark.parametrize(
    "reply",
    [
        block(
            "evil-1.0.DIST-INFO/entry_points.txt", "[pytest11]\nevil = textkit._plug\n"
        )
        + block(
            "evil-1.0.DIST-INFO/METADATA",
            "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
        )
        + PLUGIN,
        block("textkit/_plug.py", HOOK)
        + block(
            "textkit/slug.py",
            '"""Names."""\nimport _pytest.python\n'
            "_pytest.python.Function.runtest = lambda self: None\n",
            '"""Names for addresses."""\n',
        ),
    ],
)
def test_no_plain_reply_forges_a_run(
    tmp_path: Path,
    cache: Path,
    dataset: Path,
    provider: Provider,
    reply: str,
) -> None:
    provider.will_answer(reply)
    asked = options(
        tmp_path, cache, ID, dataset=str(dataset), repos=tmp_path / "mirrors"
    )
    model = (ModelChoice.parse("gpt-4o@diff", any_name=True),)
    chosen = live(
        provider, models=model, tries=1, run="r", environment=EnvironmentKind.LOCAL
    )
    assert run_command(chosen, asked, lambda _: None) == 0
    store = RunStore(tmp_path, "r")
    (result,) = json.loads(store.prediction(ID).read_text())["all_results"]
    assert result["status"] == "plausible_untested", result
    report = report_settings(
        cache,
        EvaluatorKind.LOCAL,
        dataset=str(dataset),
        repos=tmp_path / "mirrors",
    )
    assert report_command([store.folder], report, lambda _: None) == 0
    assert json.loads(store.verdict(ID).read_text())["status"] == "unresolved"


def _check_run(store: RunStore) -> None:
    found = json.loads(store.prediction(ID).read_text())
    results = found["all_results"]
    assert [result["status"] for result in results] == STATUSES
    marks = [result["edits_test_configuration"] for result in results]
    assert marks == [True, True, True, True, False, False]
    # The last one edits nothing but a source, and goes before the fourth.
    assert (found["attempt"], found["edits_test_configuration"]) == (6, False)
    assert "conftest.py" in results[3]["model_patch"]


def _check_report(store: RunStore) -> None:
    verdicts = []
    for path in store.folder.glob("verdicts/**/*.json"):
        verdicts.append(json.loads(path.read_text()))
    assert len(verdicts) == 5
    assert {verdict["status"] for verdict in verdicts} == {"unresolved"}
    reasons = [verdict["reason"] for verdict in verdicts]
    without = "resolved only with its edits of test configuration in "
    assert sorted(filter(None, reasons)) == [
        f"{without}'conftest.py'",
        f"{without}'conftest.py'",
        f"{without}'setup.cfg'",
    ]
    (page,) = (store.folder / "report").glob(f"**/{ID}.html")
    assert "its tests ran without these edits" in page.read_text()


def test_reports_show_the_mark(tmp_path: Path, cache: Path) -> None:
    files = [old_prediction(f"a__a-{n}", 1, resolved=False) for n in (1, 2)]
    note = "left out, the baseline takes too long or dies: tests/test_a.py"
    for part in (files[0], files[0]["all_results"][0]):
        part["edits_test_configuration"] = True
    for part in (files[1], files[1]["all_results"][0]):
        part["test_note"] = note
    store = RunStore.of_folder(write_run(tmp_path / "predictions/r", files))
    said: list[str] = []
    report_command([store.folder], report_settings(cache), said.append)
    (line,) = [line for line in said if "edits test configuration" in line]
    assert line.startswith("a__a-1")
    (line,) = [line for line in said if "tests/test_a.py" in line]
    assert line.startswith("a__a-2")
    page = make_pages(store.folder).read_text()
    words = "Edits of test configuration: in 1 prediction, marked below"
    assert f'<p class="note">{words}' in page
    assert page.count(", edits test configuration</td>") == 1
