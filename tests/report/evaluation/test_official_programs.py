"""The official programs themselves, where OFFICIAL_EVALUATORS names a folder of them.

The folder has for each a virtual environment ``NAME.venv``. Each evaluates a right and a wrong
patch, and one that ends the test run; a fourth row of the set has no prediction.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from swe_retry.report.evaluation.program import OfficialEvaluator
from tests.support import files_below, from_environment, official, wait_until
from tests.support.official import F2P, P2P, PATCHES, TEST_PATCH

pytestmark = [pytest.mark.long, pytest.mark.docker]


def program(name: str, out: Path) -> OfficialEvaluator:
    """Return the evaluator with the official program ``name``, or skip the test."""
    folder = from_environment("OFFICIAL_EVALUATORS")
    python = folder / f"{name}.venv/bin/python"
    if not python.exists():
        pytest.skip(f"OFFICIAL_EVALUATORS has no {name}.venv")
    return official.evaluator(name, out, python=str(python))


def check(
    name: str,
    out: Path,
    rows: dict[str, dict[str, Any]],
    images: dict[str, str],
) -> None:
    """Evaluate all patches, and compare the verdicts."""
    tasks = []
    for kind, patch in PATCHES.items():
        task = official.task(rows[kind], patch, kind, images[kind])
        tasks.append(task)
    verdicts = official.evaluated(program(name, out), tasks)
    for kind, verdict in verdicts.items():
        print(kind, verdict.status.value, verdict.reason, verdict.tool)
    assert official.statuses(verdicts) == official.STATUSES
    for verdict in verdicts.values():
        assert verdict.official
        assert verdict.tool
        assert verdict.image
    texts = [path.read_text("utf-8", "replace") for path in files_below(out)]
    text = "".join(texts)
    assert "test_zero" in text
    missing = rows[official.MISSING].get("instance_id", official.MISSING)
    assert str(missing) not in text


SLOW = (
    "diff --git a/slow b/slow\nnew file mode 100644\n--- /dev/null\n+++ b/slow\n"
    "@@ -0,0 +1 @@\n+1\n"
)


def check_killed(
    out: Path,
    row: dict[str, Any],
    image: str,
) -> None:
    """Kill the container of a right patch after its first test."""
    task = official.task(row, official.GOLD + SLOW, "killed", image)

    def kill() -> None:
        argv = ["docker", "ps", "--quiet", "--filter", f"ancestor={image}"]
        wait_until(lambda: subprocess.check_output(argv))
        time.sleep(3)
        names = subprocess.check_output(argv, text=True).split()
        subprocess.run(["docker", "kill", *names], check=True)

    killer = Thread(target=kill)
    killer.start()
    verdicts = official.evaluated(program("multi-swe-bench", out), [task])
    killer.join()
    verdict = verdicts["killed"]
    assert verdict.log.startswith(f"PASS: {P2P}\n"), verdict
    assert verdict.status.value == "not_evaluated", verdict
    assert "does not show that the tests ran" in verdict.reason


def counts_of(passed: list[str], failed: list[str]) -> dict[str, Any]:
    return {
        "passed_count": len(passed),
        "failed_count": len(failed),
        "skipped_count": 0,
        "passed_tests": passed,
        "failed_tests": failed,
        "skipped_tests": [],
    }


def test_multi_swe_bench(tmp_path: Path) -> None:
    """Two repositories with pull requests of the same numbers do not disturb each other."""
    kinds = [*PATCHES, official.MISSING]
    images = {}
    others = {}
    for number, kind in enumerate(kinds):
        images[kind] = f"mswebench/jqlang_m_jq:pr-{number}"
        others[kind] = f"mswebench/facebook_m_zstd:pr-{number}"
    script = (
        "cd /home/jq && git apply /home/test.patch /home/fix.patch\n"
        f"if [ -e slow ]; then echo 'PASS: {P2P}'; sleep 60; fi\n"
        "pytest -rA | sed -nE 's/^PASSED (.*)/PASS: \\1/p; s/^FAILED ([^ ]*).*/FAIL: \\1/p'\n"
    )
    files = {
        "fix-run.sh": script,
        "test.patch": TEST_PATCH,
        "fix.patch": official.GOLD,
    }
    copies = "".join(f"COPY {name} /home/{name}\n" for name in files)
    ok = {"run": "PASS", "test": "PASS", "fix": "PASS"}
    new = {"run": "NONE", "test": "FAIL", "fix": "PASS"}

    def row(
        org: str,
        repo: str,
        number: int,
    ) -> dict[str, Any]:
        return {
            "org": org,
            "repo": repo,
            "number": number,
            "state": "closed",
            "title": "t",
            "body": "b",
            "base": {
                "label": "l",
                "ref": "r",
                "sha": "0" * 40,
            },
            "resolved_issues": [
                {
                    "number": 1,
                    "title": "It is wrong.",
                    "body": "add",
                }
            ],
            "fix_patch": official.GOLD,
            "test_patch": TEST_PATCH,
            "fixed_tests": {F2P: new},
            "p2p_tests": {P2P: ok, "of another row": None},
            "f2p_tests": {F2P: new},
            "s2p_tests": {},
            "n2p_tests": {},
            "run_result": counts_of([P2P], []),
            "test_patch_result": counts_of([P2P], [F2P]),
            "fix_patch_result": counts_of([P2P, F2P], []),
        }

    jq = {}
    for number, kind in enumerate(kinds):
        jq[kind] = row("jqlang", "jq", number)
    nix = "mswebench/nix_swe:v1.0"
    names = [*images.values(), *others.values(), nix]
    both = []
    for org, repo, image in (
        ("jqlang", "jq", images["right"]),
        ("facebook", "zstd", others["right"]),
    ):
        name = f"{org}__{repo}-0"
        task = official.task(row(org, repo, 0), official.GOLD, name, image)
        both.append(task)
    out = tmp_path / "both"
    try:
        with official.image(names, "/home/jq", copies, files):
            check("multi-swe-bench", tmp_path / "out", jq, images)
            verdicts = official.evaluated(program("multi-swe-bench", out), both)
            check_killed(
                tmp_path / "killed",
                jq[official.RIGHT],
                images[official.RIGHT],
            )
    finally:
        official.remove_container("nix_swe")
    assert len([*out.iterdir()]) == 2
    assert verdicts["jqlang__jq-0"].status.value == "resolved"
    assert verdicts["facebook__zstd-0"].status.value == "resolved"
