"""A node's workers: what the dead ones left is removed, and what the living use is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swe_retry.record.store import RunStore
from swe_retry.runner.leftovers import claim, clean_run, node_cache, sweep, sweep_here
from tests.support import TOP

WORKER = """
import os, subprocess, sys
from pathlib import Path
from swe_retry.runner.leftovers import claim, mark_children
cache = Path(sys.argv[1])
own = claim(cache, "run")
mark_children(own.key)
(cache / "work" / own.key).mkdir()
(cache / "work" / own.key / "file").touch()
child = subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL)
print(own.key, child.pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def worker(cache: Path) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(cache)],
        cwd=TOP,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        key, child = process.stdout.readline().split()
        try:
            yield process, key, int(child)
        finally:
            process.kill()


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    return "\nState:\tZ" not in status


@pytest.mark.skipif(
    not Path("/proc/self").exists(), reason="processes are found by /proc"
)
def test_what_a_dead_worker_left_goes_and_what_a_living_one_uses_stays(
    tmp_path: Path,
) -> None:
    node = node_cache(tmp_path, "a")
    with (
        worker(node) as (dead, key, orphan),
        worker(node) as (_, other, child),
    ):
        assert sweep_here(tmp_path, containers=False) == []
        dead.kill()
        dead.wait()
        assert alive(orphan)
        removed = sweep_here(tmp_path, containers=False)
        process, folder = removed
        assert process.startswith("process ")
        assert folder.startswith("folder ")
        assert not alive(orphan)
        assert alive(child)
        names = {path.name for path in (node / "work").glob("[!.]*")}
        assert names == {other, f"{other}.lock"}
    assert len(sweep(node, containers=False)) == 2
    assert not alive(child)
    assert key != other


def test_a_claim_holds_as_long_as_its_process(tmp_path: Path) -> None:
    own = claim(tmp_path, "run")
    assert sweep(tmp_path, containers=False) == []
    own.lock.release()
    sweep(tmp_path, containers=False)
    assert list((tmp_path / "work").glob("[!.]*")) == []


# Its id is that of no process here: on a shared disk it may run on another host.
REPORT = """
import os
import sys
os.getpid = lambda: 1 << 28
from pathlib import Path
from swe_retry.core.atomic import writing_atomic
with writing_atomic(Path(sys.argv[1])) as file:
    file.write(b"half")
    print("writing", flush=True)
    sys.stdin.readline()
"""


def test_files_in_work_of_another_process_stay(tmp_path: Path) -> None:
    store = RunStore(tmp_path, "run")
    path = store.folder / "report/report.html"
    older = store.folder / ".stats.json.abcd1234.tmp"

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", REPORT, str(path)],
            cwd=TOP,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    with start() as killed, start() as report:
        for process in (killed, report):
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
        killed.kill()
        killed.wait()
        older.write_text("half")
        removed = clean_run(store, tmp_path / "cache", containers=False)
        report.communicate("\n")
    assert report.returncode == 0
    assert path.read_text() == "half"
    assert len(removed) == 2
    assert [file for file in store.folder.rglob("*") if file.is_file()] == [path]
