"""A run of jobs that are no instances: on threads and on Ray, killed and continued."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from swe_retry.core.processes import RUN_VARIABLE
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.ledger import read_ledger
from swe_retry.runner.jobs import check_keys
from swe_retry.runner.leftovers import kill_processes, run_key
from tests.support import TOP, wait_until
from tests.support.commands import Preloaded
from tests.support.killing import alive, workers_of
from tests.support.own_jobs import RUN, Question
from tests.support.provider import Answer, Provider

COUNT = 6
PROGRAM = "from tests.support.own_jobs import loaded_benchmarks as f; print(f())"


@dataclass(frozen=True)
class Named(Question):
    name: str = ""

    @property
    def key(self) -> str:
        return self.name


def jobs(*names: str) -> list[Named]:
    return [Named(1, "", name) for name in names]


def read_files(paths: Iterable[Path]) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in paths}


@pytest.mark.parametrize("names", [["../a"], [""], ["a/b"], ["a", "b", "a"]])
def test_keys_that_cannot_name_the_files_of_one_job_are_refused(
    names: list[str],
) -> None:
    check_keys(jobs("a", "b.1", "c-d_e+f"))
    with pytest.raises(ValueError, match="files are named by it"):
        check_keys(jobs(*names))


def test_jobs_of_another_kind_import_no_benchmark() -> None:
    """A process that has imported nothing else shows it; what is imported later, the next test."""
    command = [sys.executable, "-c", PROGRAM]
    printed = subprocess.check_output(command, cwd=TOP)
    assert printed == b"[]\n"


@pytest.mark.parametrize("ray", ["", pytest.param("own", marks=pytest.mark.ray)])
def test_jobs_of_another_kind_are_killed_and_continued(
    tmp_path: Path,
    provider: Provider,
    preloaded: Preloaded,
    monkeypatch: pytest.MonkeyPatch,
    ray: str,
) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    provider.will_answer(Answer("shout", hang=1.0))
    store = RunStore(tmp_path, RUN)
    arguments = [str(tmp_path), provider.url, ray, str(COUNT)]
    process = preloaded.start(*arguments, script="own-jobs", cwd=TOP)
    while process.poll() is None:
        if list(store.prediction_paths()):
            break
        time.sleep(0.02)
    workers = workers_of(process.pid)
    assert bool(workers) == bool(ray)
    process.kill()
    assert process.wait() == -9
    wait_until(lambda: not any(map(alive, workers)))
    done = read_files(store.prediction_paths())
    assert 0 < len(done) < COUNT
    continued = preloaded.run(*arguments, script="own-jobs", cwd=TOP)
    assert continued.returncode == 0, continued.stdout
    assert "question 5: done; answered" in continued.stdout
    results = read_files(store.prediction_paths())
    assert done.items() <= results.items()
    assert len(results) == COUNT
    for data in results.values():
        assert json.loads(data)["output"].strip() == "SHOUT"
    lines = read_ledger(store.ledger).values
    kinds = Counter(line.kind for line in lines)
    # Calls in flight at the kill are charged and made again; nothing that was answered is.
    assert kinds["answered"] == COUNT
    assert kinds.total() == len(provider.requests)
    log = (store.logs / "question-0.log").read_text()
    assert log.endswith("INFO done: answered\n")
    assert kill_processes(run_key(store.folder)) == []
