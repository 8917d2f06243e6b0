"""The evaluators from the command: verdicts, and errors of engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from swe_retry.core.errors import UserError
from swe_retry.demo.images import build_images
from swe_retry.demo.setup import REPOSITORIES, build_mirrors
from swe_retry.report.evaluation.engine import ENGINE_STOPPED
from swe_retry.report.evaluation.local import HiddenTests
from swe_retry.results.verdicts import Verdict
from tests.support import assert_in_no_file, read_json, write_json
from tests.support.evaluated import (
    BANK,
    FORGED,
    HIDDEN,
    TEXTKIT,
    UNITS,
    WRONG,
    make_run,
    on_disk,
    rows,
)
from tests.support.reported import report_run


class Dying(BaseHTTPRequestHandler):
    """An engine without images that stops at the first pull."""

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2].partition("?")[0]
        status = 200
        content: object = []
        if "/images/127." in self.path:
            status = 404
            content = {"message": "No such image"}
        elif name in ("version", "info", "_ping"):
            versions = {"ApiVersion": "1.41", "ServerVersion": "1"}
            content = {**versions, "DockerRootDir": "/no/such"}
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.server_close()
        self.connection.close()

    def log_message(
        self,
        format: str,
        *args: object,
    ) -> None:
        """Say nothing."""


def with_images(path: Path, images: dict[str, str]) -> str:
    """Write rows of the demo, with other images where the text is not empty."""
    data = []
    for name, image in images.items():
        row = rows()[name]
        data.append({**row, "image": image or row["image"]})
    return str(write_json(path, data))


def test_an_engine_that_dies_while_it_pulls_is_named(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = {name: f"127.0.0.1:9/{name}:1" for name in (BANK, TEXTKIT)}
    dataset = with_images(tmp_path / "rows.json", images)
    store = make_run(tmp_path, dict.fromkeys(images, WRONG))
    server = HTTPServer(("127.0.0.1", 0), Dying)
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
    thread = Thread(
        target=server.serve_forever,
        args=(0.02,),
        daemon=True,
    )
    thread.start()
    printed = report_run(store.folder, cache, "docker", dataset=dataset)
    assert printed.code == 1
    server.shutdown()
    for name in images:
        assert on_disk(store, name)["reason"] == ENGINE_STOPPED


@pytest.mark.docker
def test_in_docker(tmp_path: Path, cache: Path) -> None:
    images = {BANK: "", TEXTKIT: "", UNITS: "127.0.0.1:9/no/such:image"}
    dataset = with_images(tmp_path / "rows.json", images)
    patches = {name: rows()[name]["patch"] for name in (BANK, UNITS)}
    store = make_run(tmp_path, {**patches, TEXTKIT: WRONG})
    build_images([BANK, TEXTKIT])
    printed = report_run(store.folder, cache, "docker", dataset=dataset)
    assert printed.code == 1
    assert printed.starting("engine: version ")
    assert printed.starting("images: 2 at hand, 1 to be pulled (")
    assert on_disk(store, TEXTKIT)["status"] == "unresolved"
    assert on_disk(store, UNITS)["status"] == "not_evaluated"
    verdict = on_disk(store, BANK)
    assert verdict["status"] == "resolved"
    assert verdict["image"].startswith("swe-retry-harness/demo__bank-1:demo@sha256:")
    assert verdict["swebench"]
    log = store.logs / f"{BANK}.me__too.eval.log"
    assert "PASSED tests/test_account.py" in log.read_text()
    report = read_json(store.logs / f"{BANK}.report.json")
    assert report[BANK]["resolved"] is True

    # The same again evaluates the one that failed alone.
    printed = report_run(store.folder, cache, "docker", dataset=dataset)
    assert "evaluating 1 predictions (docker)" in printed.lines


def test_locally(tmp_path: Path, cache: Path) -> None:
    """A patch that prints a pass for a test that fails is unresolved."""
    right = "demo__textkit-2"
    patches = {TEXTKIT: FORGED, right: rows()[right]["patch"]}
    store = make_run(tmp_path, patches)
    printed = report_run(store.folder, cache, "local")
    assert printed.code == 0
    log = store.logs / f"{TEXTKIT}.me__too.eval.log"
    assert f"\nPASSED {HIDDEN}" in log.read_text()
    verdict = on_disk(store, TEXTKIT)
    assert verdict["status"] == "unresolved"
    assert verdict["official"] is False
    assert on_disk(store, right)["status"] == "resolved"


Judge = Callable[..., dict[str, Any]]


@pytest.fixture
def judge(tmp_path: Path, cache: Path) -> Judge:
    """Evaluates a patch for ``TEXTKIT``, whose row is changed, and returns the verdict."""
    repos = build_mirrors(cache / "demo-mirrors")

    def call(patch: str, /, timeout: float = 120, **changes: object) -> dict[str, Any]:
        row = {**rows()[TEXTKIT], **changes}
        dataset = write_json(tmp_path / "rows.json", [row])
        store = make_run(tmp_path, {TEXTKIT: patch})
        store.verdict(TEXTKIT).unlink(missing_ok=True)
        report_run(
            store.folder,
            cache,
            "local",
            dataset=str(dataset),
            repos=repos,
            timeout=timeout,
        )
        verdict: dict[str, Any] = on_disk(store, TEXTKIT)
        return verdict

    return call


SLOW = WRONG.replace("+1,4 @@", "+1,5 @@").replace(
    '+"""Names."""\n', '+"""Names."""\n+import time; time.sleep(1000)\n'
)


@pytest.mark.parametrize(
    ("changes", "timeout", "cause"),
    [
        ({"FAIL_TO_PASS": [f"{HIDDEN}_elsewhere"]}, 120, f"{HIDDEN}_elsewhere"),
        # A name that pytest's report cannot confirm gives each verdict a reason.
        (
            {"PASS_TO_PASS": ["[100%]", f"{HIDDEN}_elsewhere"]},
            120,
            f"[100%], {HIDDEN}_elsewhere",
        ),
        ({"patch": SLOW}, 10, "the tests did not end within 10 s"),
        ({"patch": "no patch"}, 120, "the gold patch does not apply: error: "),
    ],
    ids=["missing", "phantom", "slow", "broken"],
)
def test_without_a_resolved_gold_patch_nothing_is_unresolved(
    judge: Judge, changes: dict[str, object], timeout: float, cause: str
) -> None:
    verdict = judge(WRONG, timeout, **changes)
    assert verdict["status"] == "not_evaluated"
    start = "the gold patch is not resolved in this environment either: "
    assert verdict["reason"].startswith(start + cause)
    # What swebench appends to an output is no cause.
    assert ">>>>>" not in verdict["reason"]


def test_a_row_without_gold_patch_gives_no_verdict(judge: Judge) -> None:
    verdict = judge(WRONG, patch="")
    assert verdict["status"] == "not_evaluated"
    assert "gold patch, so it cannot be evaluated" in verdict["reason"]
    assert judge("", patch="")["status"] == "empty"
    broken = rows()[TEXTKIT]["test_patch"].replace("a-b", "a+b")
    verdict = judge(WRONG, test_patch=broken)
    assert verdict["status"] == "not_evaluated"
    assert verdict["reason"].startswith("the row's test patch does not apply: error: ")


def test_no_file_of_an_evaluation_holds_a_key_that_tests_print(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRINTED_API_KEY", HIDDEN)
    assert judge(WRONG)["status"] == "unresolved"
    assert_in_no_file(HIDDEN, tmp_path / "predictions/r/verdicts", at_least=1)
    assert_in_no_file(HIDDEN, tmp_path / "logs/r", at_least=3)


def test_one_proof_serves_all_predictions_under_its_limits(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[str] = []
    evaluate = HiddenTests.evaluate

    def note(tests: HiddenTests, patch: str) -> Verdict:
        evaluated.append(patch)
        return evaluate(tests, patch)

    monkeypatch.setattr(HiddenTests, "evaluate", note)
    gold = rows()[TEXTKIT]["patch"]
    for patch in (WRONG, FORGED):
        assert judge(patch)["status"] == "unresolved"
    # A patch that does not apply is evaluated like others.
    verdict = judge(WRONG.replace("Names for", "Names of"))
    assert verdict["status"] == "unresolved"
    assert verdict["reason"].startswith("the predicted patch does not apply: error: ")
    assert evaluated.count(gold) == 1
    proof = tmp_path / f"logs/r/evaluation/gold/{TEXTKIT}.json"
    assert read_json(proof)["conditions"]["limits"]["seconds"] == 120
    assert proof.with_suffix(".eval.log").exists()
    assert judge(WRONG, timeout=121)["status"] == "unresolved"
    assert evaluated.count(gold) == 2
    proof.write_text("{}")
    with pytest.raises(UserError, match="delete it and evaluate again"):
        judge(WRONG)


def test_an_expected_failure_is_no_solution(judge: Judge) -> None:
    """Unless the gold patch leaves it one."""
    fails = '+    import pytest; pytest.xfail("no")\n'
    gold = rows()[TEXTKIT]["patch"]
    start = gold.index("+    letters =")
    patch = gold[:start].replace("-3,10 +3,5", "-3,10 +3,4") + fails
    verdict = judge(patch)
    assert verdict["status"] == "unresolved"
    assert "not reported as passed, as with the gold patch: tests/" in verdict["reason"]
    other = patch.replace("no", "never")
    assert judge(patch, patch=other)["status"] == "resolved"


def test_patches_are_applied_as_swebench_applies_them(
    tmp_path: Path, cache: Path
) -> None:
    """Whatever a prediction does to the files of the test patch: they are replaced."""
    row = rows()
    gold = {name: row[name]["patch"] for name in row}
    added = (
        "diff --git a/tests/test_wrap.py b/tests/test_wrap.py\n"
        "--- a/tests/test_wrap.py\n+++ b/tests/test_wrap.py\n"
        "@@ -11,3 +11,4 @@\n \n def test_empty_text_has_no_lines():\n"
        '     assert wrap("", 10) == []\n+    assert False\n'
    )
    tests = (REPOSITORIES / "demo__units/tests/test_convert.py").read_text()
    lines = tests.splitlines(keepends=True)
    deleted = (
        "diff --git a/tests/test_convert.py b/tests/test_convert.py\n"
        "deleted file mode 100644\n--- a/tests/test_convert.py\n+++ /dev/null\n"
        f"@@ -1,{len(lines)} +0,0 @@\n" + "".join(f"-{line}" for line in lines)
    )
    patches = {
        BANK: gold[BANK].replace("Move ``amount``", "Moves ``amount``"),
        TEXTKIT: gold[TEXTKIT].replace("\n", "\r\n"),
        "demo__textkit-2": gold["demo__textkit-2"] + added,
        "demo__units-2": gold["demo__units-2"] + deleted,
    }
    store = make_run(tmp_path, patches)
    report_run(store.folder, cache, "local")
    for name in patches:
        assert on_disk(store, name)["status"] == "resolved", name


@pytest.mark.parametrize(
    "kind",
    ["local", pytest.param("docker", marks=pytest.mark.docker)],
)
def test_tests_that_were_killed_give_no_verdict(
    tmp_path: Path, cache: Path, kind: str
) -> None:
    """As the kernel kills them where memory runs out; their shell goes on."""
    kill = '+"""Names."""\n+import os; os.kill(os.getpid(), 9)\n'
    killing = WRONG.replace("+1,4 @@", "+1,5 @@")
    killing = killing.replace('+"""Names."""\n', kill)
    if kind == "docker":
        build_images([TEXTKIT])
    store = make_run(tmp_path, {TEXTKIT: killing})
    assert report_run(store.folder, cache, kind).code == 1
    verdict = on_disk(store, TEXTKIT)
    assert verdict["status"] == "not_evaluated"
    assert "does not show that the tests ran" in verdict["reason"]
    printed = report_run(store.folder, cache, kind)
    assert f"evaluating 1 predictions ({kind})" in printed.lines
