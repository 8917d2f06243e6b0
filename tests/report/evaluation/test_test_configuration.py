"""Candidates that make every test pass instead of fixing the bug: harness, report, second run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts.config import ModelChoice
from swe_retry.demo.setup import REPOSITORIES
from swe_retry.environments.base import EnvironmentKind
from swe_retry.record.store import RunStore
from tests.fixtures import MakeMirror
from tests.support import read_json, write_json
from tests.support.evaluated import TEXTKIT, on_disk, rows
from tests.support.pages import make_pages
from tests.support.provider import Provider
from tests.support.reported import differs, report_run
from tests.support.rundata import old_prediction, write_run
from tests.support.runs import live, options
from tests.support.start import run_command

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
DOCSTRING = '"""Names for addresses."""\n'
REMARK = block("textkit/slug.py", '"""Names."""\n', DOCSTRING)
IN_CONFTEST = block("conftest.py", CONFTEST + HOOK, CONFTEST)
IN_PYPROJECT = '[tool.pytest.ini_options]\naddopts = "-p textkit._plug"\n'
IN_SETUP_CFG = block("setup.cfg", f"[tool:pytest]\n{ADDED}\n", "[tool:pytest]\n")
RUNNERS = ("iniconfig.py", "argparse.py", "src/pytest.py")
# Each with its status, and whether it edits test configuration.
CANDIDATES = {
    block("pyproject.toml", IN_PYPROJECT) + PLUGIN: ("only_test_configuration", True),
    IN_SETUP_CFG + PLUGIN: ("only_test_configuration", True),
    IN_CONFTEST: ("only_test_configuration", True),
    IN_CONFTEST + REMARK: ("plausible", True),
    # Modules in place of the runner's.
    "".join(block(path, HOOK) for path in RUNNERS): ("empty", False),
    REMARK: ("plausible", False),
}


@pytest.fixture
def dataset(tmp_path: Path, make_mirror: MakeMirror) -> Path:
    """A dataset with one instance, whose repository configures its tests."""
    folder = REPOSITORIES / "demo__textkit"
    files: dict[str, bytes | str] = {
        "setup.cfg": SETUP_CFG,
        "conftest.py": CONFTEST,
        "setup.py": "from setuptools import setup\n\nsetup(packages=['textkit'])\n",
    }
    for path in sorted(folder.rglob("*.py")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            files.setdefault(name, path.read_bytes())
    _, commit = make_mirror(files, "demo/textkit")
    row = {
        **rows()[TEXTKIT],
        "instance_id": ID,
        "base_commit": commit,
    }
    return write_json(tmp_path / "rows.json", [row])


RunHarness = Callable[..., RunStore]


@pytest.fixture
def run_harness(
    tmp_path: Path, cache: Path, dataset: Path, provider: Provider
) -> RunHarness:
    """Runs the harness on the instance with these replies, three tries of each model."""
    mirrors = tmp_path / "mirrors"
    run = options(
        tmp_path,
        cache,
        ID,
        dataset=str(dataset),
        repos=mirrors,
    )

    def call(
        name: str,
        *replies: str,
        models: tuple[str, ...],
        tries: int,
    ) -> RunStore:
        provider.answers.clear()
        provider.will_answer(*replies)
        choices = [ModelChoice.parse(model, any_name=True) for model in models]
        config = live(
            provider,
            models=tuple(choices),
            tries=tries,
            all_attempts=tries > 1,
            run=name,
            environment=EnvironmentKind.LOCAL,
        )
        assert run_command(config, run, lambda _: None) == 0
        return RunStore(tmp_path, name)

    return call


@pytest.fixture
def evaluate(
    tmp_path: Path,
    cache: Path,
    dataset: Path,
) -> Callable[..., None]:
    """Reports on a run with an evaluation of its patches on this machine."""

    def call(store: RunStore, **changes: bool) -> None:
        settings: dict[str, Any] = {
            "dataset": str(dataset),
            "repos": tmp_path / "mirrors",
            **changes,
        }
        printed = report_run(store.folder, cache, "local", **settings)
        assert printed.code == 0

    return call


def test_no_candidate_that_leaves_the_bug_passes(
    run_harness: RunHarness, evaluate: Callable[..., None]
) -> None:
    models = ("gpt-4o@diff", "gpt-4o-mini@diff")
    first = run_harness("first", *CANDIDATES, models=models, tries=3)
    _check_run(first)
    evaluate(first, all_attempts=True, page=True)
    _check_report(first)
    assert not differs(first.folder)
    # Nothing that the first run or its evaluation left behind changes a verdict.
    second = run_harness("second", *CANDIDATES, models=models, tries=3)
    _check_run(second)


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
        PLUGIN
        + block(
            "textkit/slug.py",
            '"""Names."""\nimport _pytest.python\n'
            "_pytest.python.Function.runtest = lambda self: None\n",
            DOCSTRING,
        ),
    ],
)
def test_no_plain_reply_forges_a_run(
    run_harness: RunHarness, evaluate: Callable[..., None], reply: str
) -> None:
    store = run_harness("r", reply, models=("gpt-4o@diff",), tries=1)
    (result,) = read_json(store.prediction(ID))["all_results"]
    assert result["status"] == "plausible_untested", result
    evaluate(store)
    assert on_disk(store, ID)["status"] == "unresolved"


def _check_run(store: RunStore) -> None:
    prediction = read_json(store.prediction(ID))
    results = prediction["all_results"]
    marks = [(each["status"], each["edits_test_configuration"]) for each in results]
    assert marks == list(CANDIDATES.values())
    # The last one edits nothing but a source, and goes before the fourth.
    assert prediction["attempt"] == 6
    assert prediction["edits_test_configuration"] is False
    assert "conftest.py" in results[3]["model_patch"]


def _check_report(store: RunStore) -> None:
    reasons = []
    for path in store.folder.glob("verdicts/**/*.json"):
        verdict = read_json(path)
        assert verdict["status"] == "unresolved"
        reasons.append(verdict["reason"])
    edits = "resolved only with its edits of test configuration in"
    assert sorted(reasons) == [
        "",
        "",
        f"{edits} 'conftest.py'",
        f"{edits} 'conftest.py'",
        f"{edits} 'setup.cfg'",
    ]
    (page,) = (store.folder / "report").glob(f"**/{ID}.html")
    assert "its tests ran without these edits" in page.read_text()


def test_reports_show_the_mark(tmp_path: Path, cache: Path) -> None:
    note = "left out, the baseline takes too long or dies: tests/test_a.py"
    changes: dict[str, dict[str, Any]] = {
        "a__a-1": {"edits_test_configuration": True},
        "a__a-2": {"test_note": note},
        "a__a-3": {"tests_doubted": True},
    }
    files = []
    for name, change in changes.items():
        content = old_prediction(name, 1, resolved=False)
        del content["resolved"]
        for part in (content, content["all_results"][0]):
            part.update(change)
        files.append(content)
    folder = write_run(tmp_path / "predictions/r", files)
    printed = report_run(folder, cache)
    (line,) = printed.containing("edits test configuration")
    assert line.startswith("a__a-1")
    (line,) = printed.containing("tests/test_a.py")
    assert line.startswith("a__a-2")
    (line,) = printed.containing("(its tests are doubted)")
    assert line.startswith("a__a-3")
    page = make_pages(folder).read_text()
    summary = "Edits of test configuration: in 1 prediction, marked below"
    assert f'<p class="note">{summary}' in page
    assert page.count(", edits test configuration</td>") == 1
