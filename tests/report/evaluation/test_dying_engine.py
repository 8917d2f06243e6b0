"""A separate Docker engine is killed during an evaluation and started again."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pytest

from swe_retry.demo.setup import commit_all
from swe_retry.record.store import RunStore
from tests.support import wait_until, write_json
from tests.support.evaluated import (
    BANK,
    TEXTKIT,
    make_run,
    on_disk,
    rows,
)
from tests.support.reported import report_run

STOPPED = (
    "the Docker engine stopped answering during the evaluation; start it and "
    "repeat the command"
)
IMAGE = "swe-retry-harness/small:test"
PATCH = (
    "diff --git a/new.py b/new.py\nnew file mode 100644\n--- /dev/null\n+++ b/new.py\n"
    "@@ -0,0 +1 @@\n+pass\n"
)
needs_dockerd = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("dockerd"), reason="needs root and dockerd"
)


@dataclass
class Engine:
    """A separate engine with all its files below ``folder``."""

    folder: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def host(self) -> str:
        return f"unix://{self.folder}/docker.sock"

    def start(self) -> None:
        # One that was killed leaves them, and its processes are not reaped everywhere.
        for left in (
            self.folder / "pid",
            self.folder / "exec/containerd/containerd.pid",
        ):
            left.unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    "dockerd",
                    "--data-root",
                    self.folder / "data",
                    "--exec-root",
                    self.folder / "exec",
                    "--pidfile",
                    self.folder / "pid",
                    "-H",
                    self.host,
                    "--bridge=none",
                    "--iptables=false",
                    "--ip6tables=false",
                    "--init",
                ],
                stdout=log,
                stderr=log,
            )
        wait_until(lambda: self.is_dead or self.docker("info").returncode == 0)

    @property
    def is_dead(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def docker(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        argv = ["docker", "-H", self.host, *arguments]
        return subprocess.run(argv, capture_output=True, check=False)

    def end(self) -> None:
        """Stop it with its containers, which outlive a killed engine, and delete its files."""
        if self.is_dead:
            self.start()
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        mounts = []
        for line in Path("/proc/self/mounts").read_text().splitlines():
            mount = line.split()[1]
            if mount.startswith(f"{self.folder}/"):
                mounts.append(mount)
        for mount in reversed(mounts):
            subprocess.run(["umount", mount], check=False)
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def containers(self) -> list[str]:
        result = self.docker("ps", "-a", "--format", "{{.Names}}")
        assert result.returncode == 0, result.stderr
        return sorted(result.stdout.decode().split())


@contextmanager
def running_engine(folder: Path) -> Iterator[Engine]:
    """Start an engine, or skip the test where none can run, and end it."""
    engine = Engine(folder)
    try:
        engine.start()
        if engine.is_dead:
            reason = (folder / "log").read_text()[-300:]
            pytest.skip(f"no second engine can run: {reason}")
        yield engine
    finally:
        engine.end()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine with one small image; clients find it by DOCKER_HOST."""
    folder = tmp_path / "e"
    folder.mkdir()
    with running_engine(folder) as engine:
        make_image(engine, tmp_path / "root")
        monkeypatch.setenv("DOCKER_HOST", engine.host)
        yield engine


def make_image(engine: Engine, root: Path) -> None:
    """Import an image with little more than bash and git, to save time."""
    for name in ("bash", "git", "mkdir", "sleep", "tail"):
        program = shutil.which(name)
        assert program is not None
        linked = subprocess.run(
            ["ldd", program],
            capture_output=True,
            text=True,
            check=True,
        )
        copy_into(root, Path("/bin", name), Path(program))
        for library in re.findall(r"(/\S+) \(0x", linked.stdout):
            copy_into(root, Path(library), Path(library))
    for folder in ("etc", "tmp", "testbed"):
        (root / folder).mkdir()
    (root / "etc/passwd").write_text("root:x:0:0::/tmp:/bin/bash\n")
    (root / "testbed/old.py").touch()
    commit_all(root / "testbed", "Begin")
    tar: list[str | Path] = ["tar", "-C", root, "--owner=0", "--group=0", "-c", "."]
    with subprocess.Popen(tar, stdout=subprocess.PIPE) as packed:
        argv = ["docker", "-H", engine.host, "import", "-", IMAGE]
        subprocess.run(
            argv,
            stdin=packed.stdout,
            check=True,
            capture_output=True,
        )


def copy_into(
    root: Path,
    path: Path,
    source: Path,
) -> None:
    target = root / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def write_rows(path: Path) -> Path:
    """Write both rows with tests that the image can run; those of one take seconds."""
    data = []
    for name, seconds in ((BANK, 0), (TEXTKIT, 3)):
        row = dict(rows()[name])
        tests = [*row["FAIL_TO_PASS"], *row["PASS_TO_PASS"]]
        row["eval_script"] = "\n".join(
            [
                "exec 2>&1",  # one stream, so that markers and results keep their order
                "set -x",
                ": '>>>>> Start Test Output'",
                f"sleep {seconds}",
                *(f"echo 'PASSED {test}'" for test in tests),
                ": '>>>>> End Test Output'",
            ]
        )
        data.append({**row, "image": IMAGE})
    return write_json(path, data)


def runs_tests(store: RunStore) -> bool:
    """Return whether one instance is evaluated and the tests of the other run."""
    evaluation = store.logs / "evaluation"
    logs = []
    for path in evaluation.glob(f"**/{TEXTKIT}/run_instance.log"):
        logs.append(path.read_text())
    judged = any(evaluation.glob(f"**/{BANK}/report.json"))
    return judged and any("Eval script for" in text for text in logs)


@pytest.mark.docker
@pytest.mark.long
@needs_dockerd
def test_an_engine_that_dies_is_named_and_leaves_nothing_after_the_rerun(
    engine: Engine, tmp_path: Path, cache: Path
) -> None:
    store = make_run(tmp_path, dict.fromkeys((BANK, TEXTKIT), PATCH))
    dataset = str(write_rows(tmp_path / "rows.json"))

    def kill_in_the_middle() -> None:
        wait_until(lambda: runs_tests(store))
        time.sleep(0.5)
        engine.kill()

    killer = Thread(target=kill_in_the_middle)
    killer.start()
    printed = report_run(store.folder, cache, "docker", dataset=dataset)
    killer.join()
    assert printed.code == 1
    assert on_disk(store, BANK)["status"] == "resolved"
    dead = on_disk(store, TEXTKIT)
    assert dead["status"] == "not_evaluated"
    assert dead["reason"] == STOPPED
    assert f"not evaluated (docker) {STOPPED}\n" in f"{printed.text}\n"

    engine.start()
    # swebench may not have come to remove the other one.
    start = f"sweb.eval.{TEXTKIT}.r-"
    (left,) = [name for name in engine.containers() if name.startswith(start)]
    # Of a run with the same name in another folder, and of another program.
    others = [
        f"sweb.eval.{TEXTKIT}.r-0123456789ab",
        f"sweb.eval.{TEXTKIT}.x{left.split('.')[-1]}",
    ]
    for name in others:
        result = engine.docker("create", "--name", name, IMAGE, "true")
        assert result.returncode == 0

    printed = report_run(store.folder, cache, "docker", dataset=dataset)
    assert printed.code == 0
    removed = f"removed what an earlier evaluation left: container {left}"
    assert removed in printed.lines
    assert on_disk(store, TEXTKIT)["status"] == "resolved"
    assert engine.containers() == sorted(others)
