"""The official programs themselves, where OFFICIAL_EVALUATORS names a folder of them.

The folder has for each a virtual environment ``NAME.venv`` and, unless it is a package, a checkout
``NAME``. Each evaluates a right and a wrong patch, and one that ends the test run; a fourth row of
the set has no prediction.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from reports.evaluation.evaluators.official.tool import ToolSettings
from tests.support import from_environment, official
from tests.support.evaluated import needs_engine
from tests.support.official import F2P, P2P, PATCHES, TEST_PATCH

pytestmark = [pytest.mark.long, pytest.mark.docker, needs_engine]


def program(name: str, checkout: Path | None = None, **changes: Any) -> ToolSettings:
    """Return the settings of the official program ``name``, or skip the test."""
    folder = from_environment("OFFICIAL_EVALUATORS")
    python = folder / f"{name}.venv/bin/python"
    if not python.exists():
        pytest.skip(f"OFFICIAL_EVALUATORS has no {name}.venv")
    own = folder / name
    return official.settings(checkout or (own if own.exists() else None), str(python), **changes)


Rows = dict[str, dict[str, Any]]


def check(name: str, place: Path, rows: Rows, images: dict[str, str], **changes: Any) -> None:
    """Evaluate all patches, and compare the verdicts."""
    tasks = [official.task(rows[k], patch, k, images[k]) for k, patch in PATCHES.items()]
    verdicts = official.evaluated(name, program(name, **changes), place, tasks)
    for kind, verdict in verdicts.items():
        print(kind, verdict.status.value, verdict.reason, verdict.tool)
    assert official.statuses(verdicts) == official.STATUSES
    assert all(v.official and v.tool and v.image for v in verdicts.values())
    kept = "".join(p.read_text("utf-8", "replace") for p in place.rglob("*") if p.is_file())
    assert "test_zero" in kept
    assert str(rows[official.MISSING].get("instance_id", official.MISSING)) not in kept


def pro_checkout(place: Path, rows: Rows) -> Path:
    """Return the official script with scripts for the tiny rows."""
    official = program("pro").checkout
    assert official is not None
    shutil.copy(official / "swe_bench_pro_eval.py", place)
    shutil.copytree(official / "helper_code", place / "helper_code")
    for row in rows.values():
        scripts = place / "run_scripts" / row["instance_id"]
        scripts.mkdir(parents=True)
        (scripts / "run_script.sh").write_text("cd /app && python -m pytest -rA $1\n")
        (scripts / "parser.py").write_text(
            "import json, re, sys\n"
            "found = re.findall('^(PASSED|FAILED) (\\\\S+)', open(sys.argv[1]).read(), re.M)\n"
            "tests = [{'name': name, 'status': status} for status, name in found]\n"
            "json.dump({'tests': tests}, open(sys.argv[3], 'w'))\n"
        )
        for kind in ("base", "instance"):
            folder = place / "dockerfiles" / f"{kind}_dockerfile" / row["instance_id"]
            folder.mkdir(parents=True)
            (folder / "Dockerfile").write_text("FROM x\nENV ANSWER=42\n")
    return place


def test_pro(tmp_path: Path) -> None:
    kinds = [*PATCHES, official.MISSING]
    rows: Rows = {k: {"instance_id": f"instance_own__calc-{k}", "repo": "own/calc"} for k in kinds}
    names = {k: f"jefzda/sweap-images:own.calc-own__calc-{k}" for k in kinds}
    (tmp_path / "checkout").mkdir()
    checkout = pro_checkout(tmp_path / "checkout", rows)
    tests = {"hidden_test.py": official.FULL_TEST}
    more = 'COPY hidden_test.py /hidden/test_add.py\nENTRYPOINT ["/bin/bash"]'
    with official.image([*names.values()], "/app", more, tests):
        commit = official.base_commit(names["right"])
        for row in rows.values():
            row |= {
                "base_commit": commit,
                "before_repo_set_cmd": "git clean -fd\ncp /hidden/test_add.py tests/test_add.py",
                "selected_test_files_to_run": "['tests']",
                "fail_to_pass": "['tests/test_add.py::test_add']",
                "pass_to_pass": [P2P],
                "patch": official.GOLD,
            }
        check("pro", tmp_path / "out", rows, names, checkout=checkout)


PARSER = """\
import re

def parser(log):
    words = {"PASSED": "pass", "FAILED": "fail"}
    return {name: words[w] for w, name in re.findall(r"^(PASSED|FAILED) (\\S+)", log, re.M)}
"""


@pytest.mark.parametrize("multilingual", [False, True])
def test_live(tmp_path: Path, multilingual: bool) -> None:
    kinds = [*PATCHES, official.MISSING]
    images = {k: f"starryzhang/sweb.eval.x86_64.own_1776_calc-{k}:latest" for k in kinds}
    many = {"rebuild_cmds": ["true"], "print_cmds": ["cat log.txt"], "log_parser": PARSER}
    one = {"log_parser": "pytest"}
    with official.image([*images.values()], "/testbed"):
        rows = {
            k: {
                "instance_id": f"own__calc-{k}",
                "repo": "own/calc",
                "patch": official.GOLD,
                "test_patch": TEST_PATCH,
                "created_at": "2026-01-02",
                "test_cmds": ["pytest -rA > log.txt" if multilingual else "pytest -rA"],
                "FAIL_TO_PASS": [F2P],
                "PASS_TO_PASS": [P2P],
                "docker_image": images[k].partition(":latest")[0],
                **(many if multilingual else one),
            }
            for k in kinds
        }
        check("live", tmp_path / "out", rows, images)
    assert not (program("live").checkout or tmp_path).joinpath("tmp").exists()


def test_rebench_v2(tmp_path: Path) -> None:
    kinds = [*PATCHES, official.MISSING]
    images = {k: f"swerebenchv2/own-calc:{k}" for k in kinds}
    with official.image([*images.values()], "/Calc"):
        rows = {
            k: {
                "instance_id": f"own__calc-{k}",
                "repo": "own/Calc",
                "patch": official.GOLD,
                "test_patch": TEST_PATCH,
                "install_config": {"test_cmd": "pytest -rA", "log_parser": "parse_log_pytest"},
                "image_name": images[k],
                "FAIL_TO_PASS": [F2P],
                "PASS_TO_PASS": [P2P],
            }
            for k in kinds
        }
        check("rebench-v2", tmp_path / "out", rows, images)


def classic(kinds: list[str], images: dict[str, str], **changes: Any) -> Rows:
    """Return rows of swebench 2 and 4."""
    return {
        k: {
            "instance_id": f"own__calc-{k}",
            "repo": "own/calc",
            "version": "1.0",
            "base_commit": official.base_commit(images[k]),
            "patch": official.GOLD,
            "test_patch": TEST_PATCH,
            "problem_statement": "It is wrong.",
            "FAIL_TO_PASS": [F2P],
            "PASS_TO_PASS": json.dumps([P2P]),
            **changes,
        }
        for k in kinds
    }


def test_rebench(tmp_path: Path) -> None:
    kinds = [*PATCHES, official.MISSING]
    images = {k: f"swerebench/sweb.eval.x86_64.own_1776_calc-{k}:latest" for k in kinds}
    config = {
        "python": "3.9", "install": "true", "pre_install": [], "packages": "",
        "test_cmd": "pytest -rA", "log_parser": "parse_log_pytest",
    }  # fmt: skip
    with official.image([*images.values()], "/testbed"):
        rows = classic(kinds, images, install_config=config)
        for kind, row in rows.items():
            row["docker_image"] = images[kind]
        check("rebench", tmp_path / "out", rows, images)


def test_live_python(tmp_path: Path) -> None:
    kinds = [*PATCHES, official.MISSING]
    images = {k: f"starryzhang/sweb.eval.x86_64.own_1776_calc-{k}:latest" for k in kinds}
    with official.image([*images.values()], "/testbed"):
        rows = classic(kinds, images, test_cmds=["pytest -rA"], log_parser="pytest")
        check("live-python", tmp_path / "out", rows, images)


def test_gym(tmp_path: Path) -> None:
    kinds = [*PATCHES, official.MISSING]
    images = {
        k: f"xingyaoww/sweb.eval.x86_64.iterative_s_dvc-{n}:latest" for n, k in enumerate(kinds)
    }
    with official.image([*images.values()], "/testbed"):
        rows = classic(kinds, images, repo="iterative/dvc", version="3.15")
        for number, row in enumerate(rows.values()):
            row["instance_id"] = f"iterative__dvc-{number}"
        check("gym", tmp_path / "out", rows, images)


def counted(passed: list[str], failed: list[str]) -> dict[str, Any]:
    return {
        "passed_count": len(passed), "failed_count": len(failed), "skipped_count": 0,
        "passed_tests": passed, "failed_tests": failed, "skipped_tests": [],
    }  # fmt: skip


def test_multi_swe_bench(tmp_path: Path) -> None:
    """Two repositories with pull requests of the same numbers do not disturb each other."""
    kinds = [*PATCHES, official.MISSING]
    images = {k: f"mswebench/jqlang_m_jq:pr-{n}" for n, k in enumerate(kinds)}
    others = {k: f"mswebench/facebook_m_zstd:pr-{n}" for n, k in enumerate(kinds)}
    script = (
        "cd /home/jq && git apply /home/test.patch /home/fix.patch\n"
        "pytest -rA | sed -nE 's/^PASSED (.*)/PASS: \\1/p; s/^FAILED ([^ ]*).*/FAIL: \\1/p'\n"
    )
    files = {"fix-run.sh": script, "test.patch": TEST_PATCH, "fix.patch": official.GOLD}
    copies = "".join(f"COPY {name} /home/{name}\n" for name in files)
    ok = {"run": "PASS", "test": "PASS", "fix": "PASS"}
    new = {"run": "NONE", "test": "FAIL", "fix": "PASS"}

    def row(org: str, repo: str, number: int) -> dict[str, Any]:
        return {
            "org": org, "repo": repo, "number": number, "state": "closed", "title": "t",
            "body": "b", "base": {"label": "l", "ref": "r", "sha": "0" * 40},
            "resolved_issues": [{"number": 1, "title": "It is wrong.", "body": "add"}],
            "fix_patch": official.GOLD, "test_patch": TEST_PATCH, "fixed_tests": {F2P: new},
            "p2p_tests": {P2P: ok, "of another row": None}, "f2p_tests": {F2P: new},
            "s2p_tests": {}, "n2p_tests": {}, "run_result": counted([P2P], []),
            "test_patch_result": counted([P2P], [F2P]),
            "fix_patch_result": counted([P2P, F2P], []),
        }  # fmt: skip

    jq = {k: row("jqlang", "jq", n) for n, k in enumerate(kinds)}
    nix = "mswebench/nix_swe:v1.0"
    try:
        with official.image([*images.values(), *others.values(), nix], "/home/jq", copies, files):
            check("multi-swe-bench", tmp_path / "out", jq, images)
            both = [
                official.task(row(org, repo, 0), official.GOLD, f"{org}__{repo}-0", names["right"])
                for org, repo, names in (("jqlang", "jq", images), ("facebook", "zstd", others))
            ]
            place = tmp_path / "both"
            found = official.evaluated("multi-swe-bench", program("multi-swe-bench"), place, both)
    finally:
        official.remove_container("nix_swe")
    assert len([*place.iterdir()]) == 2
    assert found["jqlang__jq-0"].status.value == "resolved"
    assert found["facebook__zstd-0"].status.value == "resolved"


def test_smith(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program asks GitHub whether the repository is private: that one answer is put in."""
    kinds = [*PATCHES, official.MISSING]
    repo = "mewwts__addict.75284f95"
    branches = " && ".join(
        f"git checkout -qb {repo}.{k} && cp /full_test.py tests/test_calc.py && git commit -qam bug"
        " && git commit -qm tests --allow-empty && git checkout -q master"
        for k in kinds
    )
    image = "swebench/swesmith.x86_64.mewwts_1776_addict.75284f95:latest"
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "if sys.argv[:1] == ['-m']:\n"
        "    from swesmith.profiles.base import RepoProfile\n"
        "    RepoProfile._is_repo_private = lambda self: False\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    more = f"COPY full_test.py /full_test.py\nRUN git branch -M master && {branches}"
    with official.image([image], "/testbed", more, {"full_test.py": official.FULL_TEST}):
        rows: Rows = {
            k: {
                "instance_id": f"{repo}.{k}", "repo": f"swesmith/{repo}", "image_name": image,
                "patch": "diff", "FAIL_TO_PASS": [F2P], "PASS_TO_PASS": [P2P],
            }
            for k in kinds
        }  # fmt: skip
        check("smith", tmp_path / "out", rows, dict.fromkeys(kinds, image))


def test_a_container_of_a_hanging_test_is_removed(tmp_path: Path) -> None:
    """The program waits for its containers without a limit, and they outlive it."""
    image = "swerebenchv2/own-calc:hanging"
    row = {
        "instance_id": "own__calc-hanging", "repo": "own/Calc", "test_patch": TEST_PATCH,
        "install_config": {"test_cmd": "sleep 600", "log_parser": "parse_log_pytest"},
        "image_name": image, "FAIL_TO_PASS": [F2P], "PASS_TO_PASS": [P2P],
    }  # fmt: skip
    said: list[str] = []
    chosen = program("rebench-v2", timeout=8.0)
    with official.image([image], "/Calc"):
        made = official.evaluator("rebench-v2", chosen, tmp_path, said.append)
        (verdict,) = made.evaluate([official.task(row, official.GOLD, "hanging", image)], "run-1")
    assert verdict.reason.startswith("rebench-v2 was ended after 16 s; see ")
    assert sum(line.startswith("removed what the evaluation left: container") for line in said) == 1
