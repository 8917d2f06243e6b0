"""A whole run on each task set: no file, request or message has hidden data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.assembly import Options
from bench.cli.commands import run_command
from bench.cli.config import ModelChoice, RunConfig
from bench.instances.instance import instance_id_of, split_row
from core.git import git
from environments.base import EnvironmentKind
from reports.cli.options import EvaluatorKind, ReportOptions
from reports.cli.reporting import report_on
from runs.storage.store import RunStore
from tests.bench.instances.set_images import history, mirror_of
from tests.bench.instances.set_rows import GOLD, ROWS
from tests.provider import Provider

EDIT = (
    "core.py\n```python\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n"
    ">>>>>>> REPLACE\n```\n"
)


def placed(name: str, folder: Path) -> tuple[dict[str, Any], str]:
    """Return the row of a set with a mirror of its repository, and the later commit's hash."""
    base, later = history(folder / "repository")
    row = {**ROWS[name], "base_commit": base}
    if name == "multi":
        row["base"] = {"ref": "main", "sha": base}
    if name == "smith":
        row["base_commit"] = later
        row["patch"] = git("diff", later, base, cwd=folder / "repository").decode()
    repo = split_row(row)[0].repo
    mirror_of(folder / "repository", folder / "mirrors" / f"{repo.replace('/', '__')}.git")
    return row, later


def run(folder: Path, row: dict[str, Any], provider: Provider) -> tuple[RunStore, str]:
    """Run the harness on one row; return the run and what it said."""
    (folder / "rows.json").write_text(json.dumps([row]))
    provider.will_answer(EDIT)
    config = RunConfig(
        models=(ModelChoice.parse("gpt-4o", any_name=True),),
        api_base=provider.url,
        environment=EnvironmentKind.NONE,
        run="r",
    )
    options = Options(
        dataset=str(folder / "rows.json"), out=folder / "out", cache=folder / "cache",
        repos=folder / "mirrors",
    )  # fmt: skip
    said: list[str] = []
    assert run_command(config, options, said.append) == 0, said
    return RunStore(folder / "out", "r"), "\n".join(said)


@pytest.mark.parametrize("name", list(ROWS))
def test_no_sentinel_of_any_set(
    name: str, tmp_path: Path, provider: Provider, capfd: pytest.CaptureFixture[str]
) -> None:
    row, later = placed(name, tmp_path)
    store, said = run(tmp_path, row, provider)
    # Snapshots are packs of the base commit alone.
    places = (tmp_path / "out", tmp_path / "cache")
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    haystacks = {str(path): path.read_bytes().decode("utf-8", "replace") for path in files}
    haystacks["requests"] = json.dumps(provider.requests)
    haystacks["said"] = "\n".join([said, *capfd.readouterr()])
    # The commit of SWE-smith's bug is no secret.
    hashes = {GOLD, GOLD[:12], *([later] if name != "smith" else [])}
    for place, text in haystacks.items():
        for hidden in ("ZQHIDDEN", *hashes):
            assert hidden not in text + place, (place, hidden)
    shown = json.dumps(provider.requests[0]["messages"])
    assert "It subtracts." in shown
    assert ("https://example.org/a.png" in shown) is (name == "multimodal")
    predicted = json.loads(store.prediction(instance_id_of(row)).read_text())
    assert "+    return a + b" in predicted["model_patch"]


def test_pro_is_predicted_under_its_own_id(tmp_path: Path, provider: Provider) -> None:
    row, _ = placed("pro", tmp_path)
    store, _ = run(tmp_path, row, provider)
    report_on(store, ReportOptions(evaluator=EvaluatorKind.NONE), lambda _: None)
    (line,) = (store.folder / "all_preds.jsonl").read_text().splitlines()
    assert json.loads(line)["instance_id"] == row["instance_id"]
    assert (store.read_run() or {})["dataset"]["neutral_ids"] is True
