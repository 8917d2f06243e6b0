"""Help, dry runs, one agent tried, and messages about wrong input."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.instances.dataset import load_dataset
from swe_retry.instances.selection import read_ids
from swe_retry.llm.registry import ending_models
from swe_retry.record.records import Attempt
from swe_retry.record.result import InstanceResult
from swe_retry.record.versions import HARNESS_VERSION
from tests.cli.test_options import ID, NOWHERE, Run, demo, refusal, replayed
from tests.cli.test_options import here as here  # a fixture
from tests.support import TOP, write_json
from tests.support.commands import Preloaded


def offline_variables(folder: Path) -> dict[str, str]:
    """Return variables with which no hub is reached, and no cache is used."""
    hub = {"HF_HOME": str(folder / "hf"), "HF_ENDPOINT": "http://127.0.0.1:9"}
    return {**os.environ, **hub}


# --- names, help, dry runs


def test_short_options(tmp_path: Path, here: Run) -> None:
    replay = (
        f"--replay {TOP}/swe_retry/demo/replies --environment none --instances {ID}"
    )
    short = f"-m scripted-a -d demo -w 2 -r short -o {tmp_path}"
    cache = f"--set folders.cache={tmp_path}/c"
    argv = shlex.split(f"{short} {replay} {cache}")
    done = here(*argv)
    assert (tmp_path / "predictions/short/run.json").exists(), done.stderr


NAMES = {
    "harness.py": [
        "--budget-usd-per-instance",
        "--test-cmd",
        "--config",
        "--continue",
    ],
    "report.py": ["--all-attempts", "--evaluator", "verify RUN..."],
}


@pytest.mark.parametrize("script", NAMES)
def test_help_at_80_columns_has_every_name_whole(
    preloaded: Preloaded, script: str
) -> None:
    env = {**os.environ, "COLUMNS": "80"}
    done = preloaded.run("-h", script=script, env=env)
    assert done.returncode == 0
    output = done.stdout
    lines = output.splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert not re.search(r"-\w*…", output)
    for name in NAMES[script]:
        assert re.search(rf"^\s+(-\w, )?{name}\s", output, re.MULTILINE), name
    phrase = "docker, local, none"
    if script == "harness.py":
        phrase = "Instances and tests:"
        assert len(lines) < 80
    assert phrase in output


def test_the_scripts_run_by_themselves(tmp_path: Path) -> None:
    for script in ("harness.py", "report.py"):
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(TOP / script), "--version"],
            cwd=tmp_path,
            text=True,
            capture_output=True,
            env={**os.environ, "PATH": path},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"swe-retry-harness {HARNESS_VERSION}\n"


def test_a_dry_run_estimates_the_cost(tmp_path: Path, here: Run) -> None:
    argv = demo(tmp_path, "--models gpt-4o --dry-run")
    key = "sk-of-a-test-1234"
    output = here(*argv, OPENAI_API_KEY=key).stdout
    cost = r"^cost: at least \$0\.0\d+, at most \$\d+\.\d+, likely \$(\S+) \(assumed: "
    match = re.search(cost, output, re.MULTILINE)
    assert match
    # Four calls for an attempt: 10,000 tokens at $2.50 and 500 at $10 per million. An eighth
    # of the attempts is plausible, so that a second and a third may follow.
    attempts = 1 + 7 / 8 + 49 / 64
    assert float(match[1]) == pytest.approx(6 * attempts * 4 * 0.03, abs=0.01)
    limits = ("--format", "json", "--budget-usd", "3")
    output = here(*argv, *limits, OPENAI_API_KEY=key).stdout
    estimate = json.loads(output)
    assert estimate["upper"] == "3"
    assert estimate["calls"] == 180
    assert len(estimate["todo"]) == 6
    assert 0 < float(estimate["lower"]) < 1
    assert not (tmp_path / "predictions").exists()


def test_recorded_runs_tell_the_cost_and_a_far_bound_is_left_out(
    tmp_path: Path, here: Run
) -> None:
    folder = tmp_path / "predictions/before"
    attempt = Attempt(
        model="gpt-4o", cost=Decimal("0.01"), status="plausible", model_patch="p"
    )
    result = InstanceResult(
        instance_id="a__a-1", model_patch="p", status="plausible", attempts=(attempt,)
    )
    folder.mkdir(parents=True)
    write_json(folder / "run.json", {"config": {"models": [{"name": "gpt-4o"}]}})
    write_json(folder / "a__a-1.json", result.prediction())
    argv = demo(tmp_path, "--models gpt-4o --dry-run")
    output = here(*argv, OPENAI_API_KEY="sk-of-a-test-1234").stdout
    (cost,) = [line for line in output.splitlines() if line.startswith("cost: ")]
    assert cost.endswith(", likely $0.0600 (by 1 recorded attempt)")
    assert "at most" not in cost
    output = here(*argv, "--format", "json", OPENAI_API_KEY="sk-of-a-test-1234").stdout
    estimate = json.loads(output)
    assert estimate["likely"] == "0.06"
    assert float(estimate["upper"]) > 6


def test_a_dry_run_says_what_the_run_would_refuse(tmp_path: Path, here: Run) -> None:
    """Each thing once, whatever the formats, the agent before the keys."""
    models = "--models openai/my-own@diff,openai/my-own@whole --agent nosuch --dry-run"
    done = here(*demo(tmp_path, models), OPENAI_API_KEY="")
    assert done.returncode == 2
    missing = re.findall(r"^missing: (.*)$", done.stdout, re.MULTILINE)
    agent, key, price = missing[:3]
    assert agent.startswith("--agent 'nosuch': give one of builtin")
    assert key.startswith("a key for openai/my-own in the environment variable")
    advice = (
        "give --price openai/my-own=IN,OUT (dollars per million tokens; =0,0 if it is"
    )
    assert price.startswith(f"no price is known for openai/my-own: {advice}")
    # The run itself says the same of the first of them.
    real = here(*demo(tmp_path, models.replace(" --dry-run", "")), OPENAI_API_KEY="")
    assert agent in real.stderr


def test_a_dry_run_names_models_that_end_and_rows_without_tests(
    tmp_path: Path, here: Run
) -> None:
    rows: list[dict[str, Any]] = []
    for row in load_dataset("demo", "test").rows:
        rows.append(dict(row))
    del rows[0]["FAIL_TO_PASS"]
    dataset = write_json(tmp_path / "rows.json", rows)
    day = ending_models(["gpt-4", "no-such-model"])["gpt-4"]
    argv = demo(tmp_path, f"--models gpt-4 --dry-run --dataset {dataset}")
    output = here(*argv, OPENAI_API_KEY="sk-of-a-test-1234").stdout
    note = rf"^note: the provider of gpt-4 (ended|ends) it on {day}$"
    assert re.search(note, output, re.MULTILINE)
    only = f"1 instance without FAIL_TO_PASS: {rows[0]['instance_id']}"
    assert f"note: no evaluator can judge {only}" in output


def test_models_as_json(here: Run) -> None:
    output = here("list", "models", "gpt-4o", "--format", "json").stdout
    (row,) = json.loads(output)
    assert row["model"] == "gpt-4o"
    assert row["context"] == 128000
    assert row["usd_per_million_in"] == 2.5


def test_a_selection_of_nothing_is_a_mistake(tmp_path: Path, here: Run) -> None:
    for option, value in {"--filter": "nosuch", "--slice": "50:60"}.items():
        argv = replayed(tmp_path, f"{option} {value}")
        line = refusal(here(*argv))
        assert f"{option} {value!r} selects no instance" in line


# --- one agent, once


def test_an_agent_is_tried_once(tmp_path: Path, preloaded: Preloaded) -> None:
    code = (
        "import json, pathlib, sys; p = pathlib.Path('textkit/slug.py')\n"
        "p.write_text(p.read_text() + '# tried\\n'); print('worked')\n"
        "open(sys.argv[1], 'w').write(json.dumps({'cost': 0.25}))"
    )
    agent = f"command:{shlex.join([sys.executable, '-c', code])} {{result_file}}"
    model = ("--models", "m", "--set", f"folders.cache={tmp_path}/cache")
    done = preloaded.run("try", agent, *model, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "ended     exit code 0" in done.stdout
    assert "cost      $0.2500" in done.stdout
    assert "worked" in done.stdout
    assert "+# tried" in done.stdout
    agent = "command:python3 -c 'raise SystemExit(3)'"
    broken = preloaded.run("try", agent, *model, cwd=tmp_path)
    assert broken.returncode == 1
    assert "ended     the agent ended with exit code 3" in broken.stdout
    assert "none: no change is left" in broken.stdout


# --- messages


MISTAKES = {
    "--tries x": "--tries x: must be a valid integer",
    "--workers 0": "--workers 0: must be at least 1",
    f"--models gpt-4o@nope --api-base {NOWHERE}": (
        "unknown edit format or agent 'nope'"
    ),
    "--agent 'command:x {nope}'": (
        "unknown placeholder {nope}; there are {message_file}"
    ),
    "--out /proc/x": "--out /proc/x: cannot write there",
    "--set folders.cache=/proc/foo": "folders.cache /proc/foo: cannot write there",
    "--models gpt-4o,opus": "gpt-4o needs OPENAI_API_KEY, opus needs ANTHROPIC_API_KEY",
    "--api-base 127.0.0.1:9": "--api-base '127.0.0.1:9': give an address",
}


def test_mistakes_are_one_line_that_names_input_and_fix(here: Run) -> None:
    keys = {"OPENAI_API_KEY": "", "ANTHROPIC_API_KEY": ""}
    for options, message in MISTAKES.items():
        argv = shlex.split(f"--dataset demo --environment none {options}")
        line = refusal(here(*argv, **keys))
        assert line.startswith("error: ")
        assert message in line


ROW = {
    "instance_id": "a__b-1",
    "repo": "a/b",
    "base_commit": "0" * 40,
    "problem_statement": "x",
}


BROKEN_DATASETS = [
    (
        "d.jsonl",
        f"{json.dumps(ROW)}\n{{bad}}\n",
        "d.jsonl, line 2, column 2",
    ),
    (
        "d.jsonl",
        json.dumps({**ROW, "problem_statement": 5}),
        "must be a text, not int; fix the dataset",
    ),
    ("d.jsonl", "", "d.jsonl is empty"),
    ("d.json", "", "d.json is empty"),
    ("d.csv", "a,b\n", "supported are .json (a list of rows), .jsonl"),
    ("d.jsonl", "[" * 100_000, "line 1"),
]


def test_broken_datasets_are_named_with_the_place(tmp_path: Path, here: Run) -> None:
    for name, content, message in BROKEN_DATASETS:
        path = tmp_path / name
        path.write_text(content)
        argv = replayed(tmp_path, f"--dataset {path}")
        assert message in refusal(here(*argv))


def test_byte_order_marks_and_comments_are_read(tmp_path: Path, here: Run) -> None:
    ids = tmp_path / "ids.txt"
    text = f"\ufeff# the easy ones\n{ID}  # slugs\n\ndemo__bank-1\n"
    ids.write_text(text, encoding="utf-8")
    assert read_ids(f"@{ids}") == (ID, "demo__bank-1")
    row = json.dumps({**ROW, "instance_id": ID})
    rows = tmp_path / "d.jsonl"
    rows.write_text(f"\ufeff{row}\n", encoding="utf-8")
    argv = replayed(tmp_path, f"--dataset {rows} --dry-run")
    done = here(*argv)
    assert done.returncode == 0, done.stderr


def test_without_a_network_one_line_names_the_set(
    tmp_path: Path, preloaded: Preloaded
) -> None:
    argv = replayed(tmp_path, "--dataset lite")
    done = preloaded.run(*argv, cwd=tmp_path, env=offline_variables(tmp_path))
    assert done.returncode == 2
    (line,) = done.stdout.strip().splitlines()
    assert "cannot load SWE-bench/SWE-bench_Lite from the hub" in line
    assert "--dataset FILE" in line
    assert "HF_HOME" in line
    assert "--dataset demo" in line


def test_a_missing_key_is_reported_before_a_download(
    tmp_path: Path, preloaded: Preloaded
) -> None:
    env = offline_variables(tmp_path)
    env.pop("OPENAI_API_KEY", None)
    argv = demo(tmp_path, "--models gpt-4o --dataset lite")
    done = preloaded.run(*argv, cwd=tmp_path, env=env)
    assert done.returncode == 2
    (line,) = done.stdout.strip().splitlines()
    assert "API keys are missing: gpt-4o needs OPENAI_API_KEY" in line


def test_a_dry_run_without_a_key_ends_with_2(
    tmp_path: Path, here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    argv = demo(tmp_path, "--models gpt-4o --dry-run")
    done = here(*argv)
    assert "missing: a key for gpt-4o" in done.stdout
    assert done.returncode == 2


def test_a_dry_run_names_the_models_and_formats_of_a_recording(
    tmp_path: Path, here: Run
) -> None:
    replay = f"--models gpt-4o,scripted-a@whole --replay {TOP}/swe_retry/demo/replies --dry-run"
    done = here(*demo(tmp_path, replay))
    assert "models: scripted-a (diff), scripted-b (diff); " in done.stdout
    assert done.returncode == 0


def test_without_a_network_the_hub_is_given_up_at_once(tmp_path: Path) -> None:
    """The library alone waits between its tries."""
    code = (
        "import time; slept = []; time.sleep = slept.append\n"
        "from datasets import load_dataset\n"
        "from swe_retry.instances.dataset import rows_of_hub\n"
        "for load in (load_dataset, rows_of_hub):\n"
        "    slept.clear()\n"
        "    try:\n"
        "        load('SWE-bench/SWE-bench_Lite', split='test')\n"
        "    except Exception as error:\n"
        "        print(type(error).__name__, sum(slept))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=TOP,
        text=True,
        capture_output=True,
        check=True,
        env=offline_variables(tmp_path),
    )
    library, ours = done.stdout.splitlines()
    error, seconds = library.split()
    assert error == "ConnectionError"
    assert float(seconds) > 5
    error, seconds = ours.split()
    assert error == "InfrastructureError"
    assert float(seconds) <= 5
