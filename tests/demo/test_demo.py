"""The demo, as ``make demo`` runs it: each of its six instances ends as expected."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from swe_retry.core.git import git
from swe_retry.demo.__main__ import _run
from swe_retry.demo.setup import REPOSITORIES, build_mirrors
from swe_retry.environments.local.environment import NO_SANDBOX
from swe_retry.instances.dataset import load_dataset
from swe_retry.record.store import RunStore
from swe_retry.report.evaluation.evaluation_settings import EvaluatorKind
from swe_retry.report.evaluation.local import LocalEvaluator
from tests.fixtures import ShareVenvs
from tests.support import TOP, read_json
from tests.support.evaluated import evaluator_of, report_settings
from tests.support.runs import config
from tests.support.runs import options as make_options

pytestmark = pytest.mark.system

EXPECTED = {
    "demo__textkit-1": "plausible",
    "demo__textkit-2": "plausible",
    "demo__bank-1": "tests_failed plausible",
    "demo__bank-2": "plausible",
    "demo__units-1": (
        "edit_failed lint_failed edit_failed lint_failed empty tests_failed"
    ),
    "demo__units-2": "lint_failed plausible",
}


Demo = tuple[Path, str]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, share_venvs: ShareVenvs) -> Demo:
    """A copy of the project after the demo, with its output."""
    home = tmp_path_factory.mktemp("demo")
    share_venvs(home / "cache/swe-retry-harness/environments")
    copy = home / "project"
    listing = git(
        "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=TOP
    )
    for name in listing.decode().split("\0"):
        if not name:
            continue
        # Compiled modules too, which fit files of the same time: compiling all takes seconds.
        for path in (name, cache_from_source(name)):
            if (TOP / path).is_file():
                (copy / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(TOP / path, copy / path)
    (copy / "swe_retry/agent").symlink_to("../agent")
    env = {**os.environ, "XDG_CACHE_HOME": str(home / "cache")}
    result = subprocess.run(
        [sys.executable, "-m", "swe_retry.demo"],
        cwd=copy,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return copy, result.stdout


@pytest.mark.parametrize("name", EXPECTED)
def test_each_story_ends_as_it_should(demo: Demo, name: str) -> None:
    run = demo[0] / "predictions/demo"
    prediction = read_json(run / f"{name}.json")
    statuses = [result["status"] for result in prediction["all_results"]]
    assert statuses == EXPECTED[name].split()
    falls_back = name == "demo__units-1"
    assert prediction["status"] == ("fallback" if falls_back else "plausible")
    assert prediction["attempt"] == len(statuses)
    verdict = read_json(run / f"verdicts/{name}.json")
    assert verdict["resolved"] is not falls_back
    assert verdict["gold_files"] == prediction["edited_files"]


def test_the_file_is_asked_for_and_the_failed_edit_is_reflected(demo: Demo) -> None:
    path = demo[0] / "predictions/demo/trajectories/demo__textkit-2.json"
    (attempt,) = read_json(path)["attempts"]
    prompts = [m["content"] for m in attempt["messages"] if m["role"] == "user"]
    assert "Name the three to five files" in prompts[1]
    assert "def wrap(text, width)" in prompts[2]
    assert "these lines are not in textkit/wrap.py" in prompts[3]


def test_replies_are_called_scripted_wherever_they_are_shown(demo: Demo) -> None:
    folder, output = demo
    assert "scripted" in output
    assert "83.3 % of the selected" in output
    for name in EXPECTED:
        text = (folder / f"predictions/demo/{name}.md").read_text()
        assert "scripted-a" in text


def test_the_second_command_does_not_repeat_the_warning_of_the_first(
    capfd: pytest.CaptureFixture[str],
) -> None:
    command = ["-c", f"print('note: ' + {NO_SANDBOX!r}); print('more')"]
    assert _run(command, filtered=True) == 0
    assert capfd.readouterr().out == "more\n"


def test_an_evaluator_warns_of_a_missing_sandbox_once(
    tmp_path: Path, cache: Path
) -> None:
    lines: list[str] = []
    settings = report_settings(cache, EvaluatorKind.LOCAL)
    evaluator = evaluator_of(RunStore(tmp_path, "r"), settings, lines.append)
    assert isinstance(evaluator, LocalEvaluator)
    for _ in range(2):
        evaluator.environment.warn_once(NO_SANDBOX)
    assert lines == [f"note: {NO_SANDBOX}"]


def test_the_instances_name_the_commits_that_the_folders_give(tmp_path: Path) -> None:
    mirrors = build_mirrors(tmp_path)
    for row in load_dataset("demo", "test").rows:
        mirror = mirrors / f"{row['repo'].replace('/', '__')}.git"
        head = git("rev-parse", "HEAD", cwd=mirror).decode()
        assert head.strip() == row["base_commit"]
    assert len(list(REPOSITORIES.iterdir())) == 3


def test_a_mirror_is_made_again_where_its_folder_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = tmp_path / "repositories"
    shutil.copytree(REPOSITORIES, folders)
    monkeypatch.setattr("swe_retry.demo.setup.REPOSITORIES", folders)

    def numbers() -> list[int]:
        mirrors = build_mirrors(tmp_path / "mirrors")
        return [path.stat().st_ino for path in sorted(mirrors.glob("*.git"))]

    before = numbers()
    assert numbers() == before
    (folders / "demo__bank/new.py").write_text("NEW = 1\n")
    bank, *others = numbers()
    assert bank != before[0] and others == before[1:]
    mirror = tmp_path / "mirrors/demo__bank.git"
    assert git("show", "HEAD:new.py", cwd=mirror) == b"NEW = 1\n"


def test_a_worker_that_registers_nothing_finds_the_mirrors(tmp_path: Path) -> None:
    options = pickle.dumps(make_options(tmp_path, tmp_path).of(config()))
    code = (
        "import pickle, sys; from swe_retry.attempts.benchmark import make_mirrors; "
        "print(make_mirrors(pickle.loads(sys.stdin.buffer.read())).get('demo/bank', 'HEAD'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=options,
        cwd=TOP,
        capture_output=True,
        check=True,
    )
    mirror = f"{tmp_path}/demo-mirrors/demo__bank.git"
    assert done.stdout.decode().strip() == mirror
