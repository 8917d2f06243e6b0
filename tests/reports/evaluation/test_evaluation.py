"""Evaluation: what is evaluated again and what is kept, what cannot be evaluated, and regrading."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bench.instances.dataset import Dataset, load_dataset
from bench.instances.instances import split_row
from core.errors import UserError
from demo.images import build_images
from demo.setup import DEMO_DATASET
from environments.docker.engine import connect, engine_answers
from environments.docker.images import pull_each, registry_of
from environments.docker.registries import Registries
from reports.cli.commands import report_command
from reports.cli.options import EvaluatorKind, ReportOptions
from reports.data.predictions import Prediction, read_predictions, run_id
from reports.evaluation.evaluation import RunEvaluation
from reports.evaluation.evaluators.base import EvaluationTask, Verdict, VerdictStatus
from reports.evaluation.evaluators.localoutput import grade_saved, is_saved, saved
from reports.evaluation.evaluators.none import NoEvaluator
from reports.evaluation.evaluators.swebench import ENGINE_STOPPED, Swebench, check_rows
from runs.storage.store import RunStore
from tests.environments.docker.test_images import Registry

needs_engine = pytest.mark.skipif(not engine_answers(), reason="no Docker engine answers")
BANK, TEXTKIT, UNITS = "demo__bank-1", "demo__textkit-1", "demo__units-1"
WRONG = (
    "diff --git a/textkit/slug.py b/textkit/slug.py\n--- a/textkit/slug.py\n+++ b/textkit/slug.py\n"
    '@@ -1,4 +1,4 @@\n-"""Names for addresses."""\n+"""Names."""\n \n \n def slugify(text):\n'
)
HIDDEN = "tests/test_slug.py::test_runs_become_one_dash"
# Printed when pytest has ended, where swebench's parsers read results.
FORGED = WRONG.replace("+1,4 @@", "+1,6 @@").replace(
    '+"""Names."""\n',
    f'+"""Names."""\n+import atexit\n+atexit.register(print, "\\nPASSED {HIDDEN}")\n',
)
Say = Callable[[str], None]


def rows() -> dict[str, Mapping[str, Any]]:
    return {r["instance_id"]: r for r in load_dataset("demo", "test", DEMO_DATASET).rows}


@dataclass
class Fixed:
    """An evaluator with one answer, which notes what it is asked."""

    status: VerdictStatus = VerdictStatus.RESOLVED
    missing: dict[str, str] = field(default_factory=dict)
    name: str = "docker"
    asked: list[str] = field(default_factory=list)
    run_ids: list[str] = field(default_factory=list)

    def accepts(self, verdict: Verdict | None) -> bool:
        return verdict is not None and verdict.final

    def prepare(self, tasks: Sequence[EvaluationTask]) -> Mapping[str, str]:
        return self.missing

    def evaluate(self, tasks: Sequence[EvaluationTask], run_id: str) -> Iterator[Verdict]:
        self.run_ids.append(run_id)
        for task in tasks:
            self.asked.append(task.instance.instance_id)
            yield Verdict(task.instance.instance_id, self.status, self.name, log="out", report={})


def make_run(out: Path, patches: Mapping[str, str]) -> RunStore:
    folder = out / "predictions" / "r"
    folder.mkdir(parents=True, exist_ok=True)
    dataset = {"name": "demo", "split": "test"}
    run = {"dataset": dataset, "selected": sorted(patches)}
    (folder / "run.json").write_text(json.dumps(run))
    for name, patch in patches.items():
        content = {"instance_id": name, "model_name_or_path": "me/too", "model_patch": patch}
        (folder / f"{name}.json").write_text(json.dumps(content))
    return RunStore.of_folder(folder)


def options(cache: Path, kind: EvaluatorKind, **changes: Any) -> ReportOptions:
    values: dict[str, Any] = {
        "evaluator": kind, "dataset": "", "split": "", "workers": 2, "timeout": 120.0,
        "cache": cache, "repos": None,
    }  # fmt: skip
    return ReportOptions(**{**values, **changes})


def evaluation(store: RunStore, say: Say = lambda _: None) -> RunEvaluation:
    def load() -> Dataset:
        return load_dataset("demo", "test", DEMO_DATASET)

    return RunEvaluation(store, read_predictions(store), load, say)


def on_disk(store: RunStore, name: str) -> Any:
    return json.loads(store.verdict(name).read_text())


def test_only_changed_patches_are_evaluated_again(tmp_path: Path) -> None:
    gold = rows()[BANK]["patch"]
    store = make_run(tmp_path, {BANK: gold, TEXTKIT: WRONG, UNITS: ""})
    first, second, third = Fixed(), Fixed(), Fixed()
    verdicts = evaluation(store).evaluate(first).verdicts
    assert first.asked == [BANK, TEXTKIT]
    assert verdicts[UNITS].status is VerdictStatus.EMPTY
    assert on_disk(store, UNITS)["gold_files"] == ["units/parse.py"]
    assert evaluation(store).evaluate(second).verdicts[BANK].status is VerdictStatus.RESOLVED
    assert second.asked == []
    make_run(tmp_path, {TEXTKIT: FORGED})
    said: list[str] = []
    evaluation(store, said.append).evaluate(third)
    assert third.asked == [TEXTKIT]
    assert third.run_ids != first.run_ids
    assert said[0] == "kept: 2 verdicts on unchanged patches, 1 official"


def test_none_takes_what_is_there_and_loads_nothing(tmp_path: Path) -> None:
    store = make_run(tmp_path, {BANK: WRONG, UNITS: ""})

    def load() -> Dataset:
        raise AssertionError("no row is needed")

    work = RunEvaluation(store, read_predictions(store), load, print)
    verdicts = work.evaluate(NoEvaluator()).verdicts
    statuses = {name: verdict.status for name, verdict in verdicts.items()}
    assert statuses == {BANK: VerdictStatus.NOT_EVALUATED, UNITS: VerdictStatus.EMPTY}
    assert not store.verdict(BANK).exists()


def test_what_cannot_be_evaluated_again_keeps_the_verdict_it_has(tmp_path: Path) -> None:
    store = make_run(tmp_path, {BANK: WRONG, TEXTKIT: WRONG})
    evaluation(store).evaluate(Fixed(name="local", missing={TEXTKIT: "no image"}))
    said: list[str] = []
    evaluator = Fixed(missing={BANK: "no image", TEXTKIT: "no image"})
    done = evaluation(store, said.append).evaluate(evaluator)
    assert set(done.failed) == {BANK, TEXTKIT}
    assert (done.verdicts[BANK].status, done.verdicts[BANK].evaluator) == (
        VerdictStatus.RESOLVED,
        "local",
    )
    assert done.verdicts[TEXTKIT].status is VerdictStatus.NOT_EVALUATED
    assert f"{BANK}: the verdict of local stands" in said
    assert on_disk(store, BANK)["status"] == "resolved"
    assert on_disk(store, TEXTKIT)["reason"] == "no image"


def test_files_of_an_earlier_patch_do_not_stay(tmp_path: Path) -> None:
    store = make_run(tmp_path, {BANK: WRONG})
    evaluation(store).evaluate(Fixed())
    log, report = store.logs / f"{BANK}.me__too.eval.log", store.logs / f"{BANK}.report.json"
    assert log.read_text() == "out"
    assert report.exists()
    make_run(tmp_path, {BANK: FORGED})
    evaluation(store).evaluate(Fixed(missing={BANK: "no image"}))
    assert not log.exists()
    assert not report.exists()


def test_instances_that_are_not_in_the_dataset_are_told_apart(tmp_path: Path) -> None:
    store = make_run(tmp_path, {BANK: WRONG, "own__thing-1": WRONG})
    said: list[str] = []
    done = evaluation(store, said.append).evaluate(evaluator := Fixed())
    assert evaluator.asked == [BANK]
    assert done.failed == ("own__thing-1",)
    assert done.verdicts["own__thing-1"].reason.startswith("not in the dataset")
    assert any(line.startswith("1 instance: not in the dataset") for line in said)
    with pytest.raises(UserError, match="check --dataset"):
        evaluation(make_run(tmp_path / "else", {"own__thing-1": WRONG})).evaluate(Fixed())


def test_no_engine_is_not_evaluated_and_exit_code_1(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    store = make_run(tmp_path, {BANK: WRONG})
    said: list[str] = []
    chosen = options(cache, EvaluatorKind.DOCKER)
    assert report_command([store.folder], chosen, said.append) == 1
    assert any("not evaluated (docker) no Docker engine answers" in line for line in said)
    results = json.loads((store.folder / "results.json").read_text())
    assert results == {"no_generation": [], "no_logs": [BANK], "resolved": []}


class Dying(BaseHTTPRequestHandler):
    """An engine without images that is gone as soon as it is to pull one."""

    def do_GET(self) -> None:
        path = self.path.rpartition("/")[2].partition("?")[0]
        about = {"ApiVersion": "1.41", "ServerVersion": "1", "DockerRootDir": "/no/such"}
        body = json.dumps(about if path in ("version", "info", "_ping") else []).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.server_close()
        self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_an_engine_that_dies_while_it_pulls_is_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [{**rows()[name], "image": f"127.0.0.1:9/{name}:1"} for name in (BANK, TEXTKIT)]
    (tmp_path / "rows.json").write_text(json.dumps(data))
    store = make_run(tmp_path, {BANK: WRONG, TEXTKIT: WRONG})
    chosen = options(cache, EvaluatorKind.DOCKER, dataset=str(tmp_path / "rows.json"), page=False)
    server = HTTPServer(("127.0.0.1", 0), Dying)
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
    Thread(target=server.serve_forever, daemon=True).start()
    assert report_command([store.folder], chosen, print) == 1
    server.shutdown()
    reasons = {on_disk(store, name)["reason"] for name in (BANK, TEXTKIT)}
    assert reasons == {ENGINE_STOPPED}


def test_modal_without_an_account_is_not_evaluated(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    store = make_run(tmp_path, {BANK: WRONG})
    assert report_command([store.folder], options(cache, EvaluatorKind.MODAL), print) == 1
    assert "modal.toml not found" in on_disk(store, BANK)["reason"]


@pytest.mark.docker
@needs_engine
def test_in_docker_and_again_from_its_output(tmp_path: Path, cache: Path) -> None:
    image = "127.0.0.1:9/no/such:image"
    data = [{**rows()[BANK]}, {**rows()[TEXTKIT]}, {**rows()[UNITS], "image": image}]
    (tmp_path / "rows.json").write_text(json.dumps(data))
    gold = {name: row["patch"] for name, row in rows().items()}
    store = make_run(tmp_path, {BANK: gold[BANK], TEXTKIT: WRONG, UNITS: gold[UNITS]})
    build_images([BANK, TEXTKIT])
    chosen = options(cache, EvaluatorKind.DOCKER, dataset=str(tmp_path / "rows.json"))
    said: list[str] = []
    assert report_command([store.folder], chosen, said.append) == 1
    assert any(line.startswith("engine: version ") for line in said)
    assert any(line.startswith("images: 2 at hand, 1 to be pulled (") for line in said)
    statuses = {name: on_disk(store, name)["status"] for name in (BANK, TEXTKIT, UNITS)}
    assert statuses == {BANK: "resolved", TEXTKIT: "unresolved", UNITS: "not_evaluated"}
    verdict = on_disk(store, BANK)
    assert verdict["image"].startswith("swe-retry-harness/demo__bank-1:demo@sha256:")
    assert verdict["swebench"]
    log = store.logs / f"{BANK}.me__too.eval.log"
    assert "PASSED tests/test_account.py" in log.read_text()
    report = json.loads((store.logs / f"{BANK}.report.json").read_text())
    assert report[BANK]["resolved"] is True

    # The same again evaluates the one that failed alone.
    said.clear()
    report_command([store.folder], chosen, said.append)
    assert "evaluating 1 predictions (docker)" in said

    (kept,) = (store.logs / "evaluation").glob(f"**/{BANK}/test_output.txt")
    text = kept.read_text().replace("PASSED tests/test_account.py::test_dep", "FAILED tests/test_d")
    kept.write_text(text)
    again = options(cache, EvaluatorKind.DOCKER, dataset=chosen.dataset, regrade=True)
    said.clear()
    assert report_command([store.folder], again, said.append) == 1  # one has no output
    assert "graded 2 again; 1 left no test output" in said
    assert f"{BANK}: was resolved" in said
    assert on_disk(store, BANK)["status"] == "unresolved"
    assert on_disk(store, BANK)["official"] is True
    assert on_disk(store, BANK)["image"] == verdict["image"]

    # Without swebench's folder, the copy in logs/<run>/ is read.
    shutil.rmtree(store.logs / "evaluation")
    log.write_text(text.replace("FAILED tests/test_d", "PASSED tests/test_account.py::test_dep"))
    report_command([store.folder], again, lambda _: None)
    assert on_disk(store, BANK)["status"] == "resolved"


def test_locally_and_again_from_its_output(tmp_path: Path, cache: Path) -> None:
    """A patch that prints a pass for a test that fails is unresolved, now and later."""
    gold = rows()["demo__textkit-2"]["patch"]
    store = make_run(tmp_path, {TEXTKIT: FORGED, "demo__textkit-2": gold})
    chosen = options(cache, EvaluatorKind.LOCAL)
    assert report_command([store.folder], chosen, lambda _: None) == 0
    log = store.logs / f"{TEXTKIT}.me__too.eval.log"
    assert f"\nPASSED {HIDDEN}" in log.read_text()
    verdict = on_disk(store, TEXTKIT)
    assert (verdict["status"], verdict["official"]) == ("unresolved", False)
    assert on_disk(store, "demo__textkit-2")["status"] == "resolved"
    store.verdict("demo__textkit-2").write_text(
        json.dumps({**on_disk(store, "demo__textkit-2"), "status": "unresolved"})
    )
    said: list[str] = []
    again = options(cache, EvaluatorKind.LOCAL, regrade=True)
    assert report_command([store.folder], again, said.append) == 0
    assert "graded 2 again; 0 left no test output" in said
    assert "demo__textkit-2: was unresolved" in said
    assert on_disk(store, "demo__textkit-2")["status"] == "resolved"
    assert on_disk(store, TEXTKIT)["status"] == "unresolved"


def task(name: str, patch: str = WRONG, **changes: Any) -> EvaluationTask:
    prediction = Prediction(name, "me/too", patch, (), False, None)
    return EvaluationTask(prediction, *split_row({**rows()[name], **changes}))


TESTS = ("test_lower_case", "test_space_becomes_dash", "test_runs_become_one_dash")
PRINTED = "".join(f"PASSED tests/test_slug.py::{name}\n" for name in TESTS)


def report(*failed: str) -> str:
    cases = "".join(
        f'<testcase classname="tests.test_slug" name="{name}">'
        f"{'<failure/>' if name in failed else ''}</testcase>"
        for name in TESTS
    )
    return f"<testsuites><testsuite>{cases}</testsuite></testsuites>"


@pytest.mark.parametrize(
    ("output", "resolved"),
    [
        (f"{PRINTED}\nTOKEN\n{report()}", True),
        (f"{PRINTED}\nTOKEN\n{report(TESTS[2])}", False),
        (PRINTED, False),
        (f"{PRINTED}\nTOKEN\n<testsuites>", False),
        (f"{PRINTED}\n{report()}\nTOKEN\n", False),
        (f"\nTOKEN\n{report()}", False),
    ],
)
def test_a_pass_needs_its_line_and_pytests_report(output: str, resolved: bool) -> None:
    log = saved(output, "TOKEN")
    assert is_saved(log)
    verdict = grade_saved(task(TEXTKIT), log, "local")
    assert (verdict.status is VerdictStatus.RESOLVED) is resolved
    assert grade_saved(task(TEXTKIT), saved(output, "TOKEN", timed_out=True), "local").status is (
        VerdictStatus.UNRESOLVED
    )


def test_names_that_no_report_can_hold_are_read_as_swebench_does() -> None:
    """swebench's parser makes names of nested output; rows of pytest itself have some."""
    nested = "PASSED [100%]\nPASSED [\n"
    case = task(TEXTKIT, PASS_TO_PASS=["[100%]", "["])
    verdict = grade_saved(case, saved(f"{nested}{PRINTED}\nTOKEN\n{report()}", "TOKEN"), "local")
    assert verdict.status is VerdictStatus.RESOLVED
    assert "as swebench reads [, [100%], which pytest's report cannot tell" in verdict.reason
    # A report that is missing confirms nothing, and one that names the test decides.
    alone = grade_saved(case, saved(f"{nested}{PRINTED}", "TOKEN"), "local")
    assert alone.status is VerdictStatus.UNRESOLVED
    failed = saved(f"{nested}{PRINTED}\nTOKEN\n{report(TESTS[2])}", "TOKEN")
    assert grade_saved(case, failed, "local").status is VerdictStatus.UNRESOLVED


def test_other_runners_need_their_count() -> None:
    spec = {**rows()[TEXTKIT]["spec"], "test_cmd": "python -m unittest -v"}
    changes = {"spec": spec, "log_parser": "parse_log_django", "PASS_TO_PASS": []}
    case = task(TEXTKIT, **changes, FAIL_TO_PASS=["test_x (tests.T.test_x)"])
    line = "test_x (tests.T.test_x) ... ok\n"
    end = "\n----------\nRan {} tests in 0.001s\n\nOK\n"
    for output, resolved in (
        (line + end.format(2), True),
        (line, False),
        (line + end.format(0), False),
        (line + end.format(2) + end.format(2), False),
    ):
        verdict = grade_saved(case, saved(output, "TOKEN"), "local")
        assert (verdict.status is VerdictStatus.RESOLVED) is resolved, output


def test_swebench_folders_are_found_wherever_they_are(tmp_path: Path) -> None:
    """A later version moves them; what a patch says is not taken for a fault of swebench's."""
    swebench = Swebench(tmp_path, 1, 60, "test")
    folder = tmp_path / "logs/evaluation/v9/run-1/deeper/me__too" / TEXTKIT
    folder.mkdir(parents=True)
    log = folder / "run_instance.log"
    log.write_text(
        "2026-01-01 10:00:00,123 - INFO - Git diff before:\n+>>>>> Patch Apply Failed\n"
        "2026-01-01 10:00:01,123 - ERROR - Error response from daemon: gone\n"
    )
    verdict = swebench.verdict(task(TEXTKIT), "run-1", "docker", "")
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert verdict.reason.startswith("swebench could not evaluate it: Error response from daemon")
    assert verdict.reason.endswith(f"gone; see {log}")
    log.write_text("2026-01-01 10:00:00,123 - INFO - >>>>> Patch Apply Failed:\nerror: x\n")
    verdict = swebench.verdict(task(TEXTKIT), "run-1", "docker", "")
    assert (verdict.status, verdict.reason) == (
        VerdictStatus.UNRESOLVED,
        ">>>>> Patch Apply Failed",
    )
    (folder / "report.json").write_text(json.dumps({TEXTKIT: {"resolved": True}}))
    assert swebench.verdict(task(TEXTKIT), "run-1", "docker", "").status is VerdictStatus.RESOLVED
    assert swebench.verdict(task(TEXTKIT), "run-2", "docker", "it died").reason == "it died"
    (folder / "patch.diff").write_text(WRONG)
    (folder / "test_output.txt").write_text("")
    assert swebench.saved(task(TEXTKIT)) == folder
    assert swebench.saved(task(TEXTKIT, FORGED)) is None
    (folder / "report.json").unlink()
    log.write_text("2026-01-01 10:00:00,123 - INFO - Test output written\n")
    assert swebench.saved(task(TEXTKIT)) is None, "half an output"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("('Connection aborted.', ConnectionRefusedError(111, 'refused'))", "engine stopped answ"),
        ("UnixHTTPConnectionPool(host='localhost'): Read timed out.", "engine stopped answering"),
        ("409 Client Error: Conflict (container 4f is not running)", "its container stopped"),
        ("'utf-8' codec can't decode", "swebench could not evaluate it: 'utf-8' codec can't"),
    ],
)
def test_what_ended_an_evaluation_is_one_clear_line(tmp_path: Path, error: str, words: str) -> None:
    folder = tmp_path / "logs/run_evaluation/run-1/me__too" / TEXTKIT
    folder.mkdir(parents=True)
    (folder / "run_instance.log").write_text(
        f"2026-01-01 10:00:01,123 - ERROR - Error in evaluating model for {TEXTKIT}: {error}\n"
        f"Error in evaluating model for {TEXTKIT}: {error}\nTraceback (most recent call last):\n"
        "2026-01-01 10:00:02,123 - INFO - Failed to remove container x\n"
    )
    verdict = Swebench(tmp_path, 1, 60, "test").verdict(task(TEXTKIT), "run-1", "docker", "")
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert words in verdict.reason and "ERROR" not in verdict.reason


def test_a_swebench_that_was_killed_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "logs/run_evaluation/run-1/me__too" / TEXTKIT
    folder.mkdir(parents=True)
    (folder / "run_instance.log").write_text("2026-01-01 10:00:01,123 - INFO - Creating\n")
    verdict = Swebench(tmp_path, 1, 60, "test").verdict(task(TEXTKIT), "run-1", "docker", "")
    assert verdict.reason == f"swebench ended early; see {folder / 'run_instance.log'}"


def test_containers_of_an_evaluation_that_goes_on_are_left_alone(tmp_path: Path) -> None:
    swebench = Swebench(tmp_path, 1, 60, "test")
    assert not swebench.left_containers([task(TEXTKIT)]).fullmatch("")
    for name in ("r.1-aa", "r.1-bb"):
        (tmp_path / f"{name}.log").touch()
    name = f"sweb.eval.{TEXTKIT}.r.1"
    with (tmp_path / "r.1-bb.log").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        names = swebench.left_containers([task(TEXTKIT)])
        with pytest.raises(UserError, match=r"r\.1-bb\.log is in use: another process"):
            swebench.run([task(TEXTKIT)], "r.1-bb")
    assert names.fullmatch(f"{name}-aa") and names.fullmatch(f"{name}-aa.1700000000")
    others = (f"{name}-bb", f"{name}-aab", f"sweb.eval.{BANK}.r.1-aa", f"x{name}-aa")
    assert not any(map(names.fullmatch, others))
    assert swebench.left_containers([task(TEXTKIT)]).fullmatch(f"{name}-bb")


def test_the_id_of_a_combined_runs_evaluation_may_stand_in_a_containers_name(
    tmp_path: Path,
) -> None:
    assert re.fullmatch(r"a_b-[0-9a-f]{12}", run_id(RunStore(tmp_path, "a+b"), []))


def test_runs_of_one_name_in_two_folders_share_no_container(tmp_path: Path) -> None:
    ids = {run_id(RunStore(tmp_path / folder, "demo"), []) for folder in ("one", "two", "two")}
    assert len(ids) == 2


class Hub(Registry):
    """Docker Hub's interface for one image besides."""

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        if self.path == "/v2/repositories/swebench/a/tags/1":
            images = [
                {"os": "linux", "architecture": "arm64", "size": 5},
                {"os": "linux", "architecture": "amd64", "size": 70},
            ]
            body = json.dumps({"full_size": 5, "images": images}).encode()
            self._answer(200, body, "application/json")
        else:
            super().do_GET()


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as found:
        Thread(target=found.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{found.server_port}"
        found.shutdown()


def test_sizes_are_told_where_registries_tell_them(server: str) -> None:
    images = [f"{server}/good/a:1", f"{server}/busy/a:1", "swebench/a:1", "swebench/b:1"]
    sizes = Registries(hub=f"http://{server}").sizes([*images, "127.0.0.1:9/a:1"])
    assert set(sizes) == {images[0], images[2]}
    assert sizes["swebench/a:1"] == 70
    assert 0 < sizes[images[0]] < 1000


@pytest.mark.docker
@needs_engine
def test_a_registry_that_will_not_go_on_is_not_asked_again(server: str) -> None:
    client: Any = connect()
    said: list[str] = []
    images = [f"{server}/busy/a:1", f"{server}/busy/b:1"]
    failed = pull_each(client, images, said.append, reserve=0)
    assert "rate limit is reached" in failed[images[0]]
    assert failed[images[1]].startswith("not pulled after this: cannot pull")
    assert said == [f"pull image 1 of 2: {images[0]}"]
    none = [f"{server}/none/a:1", f"{server}/none/b:1"]
    failed = pull_each(client, none, said.append, reserve=0)
    assert all("has no such image" in failed[image] for image in none)
    assert registry_of("swebench/a:1") == "docker.io"


def test_a_row_that_lacks_something_holds_up_no_other() -> None:
    lacking = task(BANK, FAIL_TO_PASS=[], eval_script="")
    reasons = check_rows([lacking, task("demo__textkit-1")])
    assert reasons == {BANK: "the dataset's row lacks eval_script, FAIL_TO_PASS"}
    with pytest.raises(UserError, match="lacks eval_script"):
        check_rows([lacking])
