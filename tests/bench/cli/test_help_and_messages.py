"""Help, dry runs, one agent tried, and messages about wrong input."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bench.selection import read_ids
from runs.storage.versions import HARNESS_VERSION
from tests.bench.cli.test_options import ID, NOWHERE, Run, demo, refusal, replayed
from tests.bench.cli.test_options import here as here  # a fixture
from tests.support import TOP
from tests.support.commands import Preloaded


def offline_variables(folder: Path) -> dict[str, str]:
    """Return variables with which no hub is reached, and no cache is used."""
    hub = {"HF_HOME": str(folder / "hf"), "HF_ENDPOINT": "http://127.0.0.1:9"}
    return {**os.environ, **hub}


# --- names, help, dry runs


def test_short_options(tmp_path: Path, here: Run) -> None:
    replay = f"--replay {TOP}/demo/replies --environment none --instances {ID}"
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
    # Six instances with four calls each: 10,000 tokens at $2.50 and 500 at $10 per million.
    assert float(match[1]) == pytest.approx(6 * 4 * 0.03, abs=0.01)
    limits = ("--format", "json", "--budget-usd", "3")
    output = here(*argv, *limits, OPENAI_API_KEY=key).stdout
    estimate = json.loads(output)
    assert estimate["upper"] == "3"
    assert estimate["calls"] == 180
    assert len(estimate["todo"]) == 6
    assert 0 < float(estimate["lower"]) < 1
    assert not (tmp_path / "predictions").exists()


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
    replay = f"--models gpt-4o,scripted-a@whole --replay {TOP}/demo/replies --dry-run"
    done = here(*demo(tmp_path, replay))
    assert "models: scripted-a (diff), scripted-b (diff); " in done.stdout
    assert done.returncode == 0


def test_without_a_network_the_hub_is_given_up_at_once(tmp_path: Path) -> None:
    """The library alone waits between its tries."""
    code = (
        "import time; slept = []; time.sleep = slept.append\n"
        "from datasets import load_dataset\n"
        "from bench.instances.dataset import rows_of_hub\n"
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
