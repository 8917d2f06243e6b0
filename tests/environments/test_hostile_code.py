"""Hostile test code in each environment: what it can use, and what it leaves.

All of it is small and ends by itself, so that it does no harm where a limit fails.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli.config import TestChoice
from bench.instances.dataset import load_dataset
from bench.instances.instances import Instance
from bench.instances.requirements import project_of
from bench.regression.preexisting import Preexisting, TestLimits
from bench.repos.checkout import Checkout, Snapshots, make_checkout
from bench.repos.mirrors import Mirrors
from core.errors import InfrastructureError
from core.processes import CommandResult
from demo.images import build_images
from demo.setup import DEMO_DATASET, build_mirrors
from environments import Session, run_once
from environments.docker.docker import DockerEnvironment
from environments.docker.engine import connect, engine_answers
from environments.leftovers import remove_containers
from environments.limits import ResourceLimits
from environments.local.bubblewrap import bubblewrap_works, process_limit_binds
from environments.local.cgroups import cgroups_work, limited_group, remove_groups
from environments.local.confinement import Confinement, find_confinement, missing_limits
from environments.local.local import LocalEnvironment, LocalSession
from environments.local.sandbox import Confined

MB = 1 << 20
LIMITS = ResourceLimits(
    processes=40, memory=200 * MB, file_size=20 * MB, written=60 * MB, temporary=10 * MB
)
WAYS = ["cgroup", "other-user", "rlimits", "open", "docker"]
IGNORES_TERM = "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


@pytest.fixture(scope="module")
def demo(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Instance, Checkout]:
    instances = load_dataset("demo", "test", DEMO_DATASET).instances()
    instance = next(i for i in instances if i.instance_id == "demo__textkit-1")
    mirror = Mirrors(build_mirrors(cache / "demo-mirrors")).get(instance.repo, instance.base_commit)
    snapshot = Snapshots(cache / "snapshots").get(mirror, instance.repo, instance.base_commit)
    root = tmp_path_factory.mktemp("hostile") / "tree"
    return instance, make_checkout(snapshot, root)


@pytest.fixture(scope="module")
def local(cache: Path, demo: tuple[Instance, Checkout]) -> Iterator[LocalSession]:
    made: Any = LocalEnvironment(cache / "hostile", print).start(project_of(*demo))
    yield made
    made.stop()


@dataclass(frozen=True)
class Place:
    """A session with small limits, and the way in which they are enforced."""

    way: str
    session: Session
    mark: str = field(default_factory=lambda: f"mark-{secrets.token_hex(8)}")

    def run(self, code: str, seconds: float = 20) -> CommandResult:
        """Run ``code`` with a mark that is visible in the machine's list of processes."""
        changes: dict[str, bytes | None] = {"hostile.py": code.encode()}
        result = run_once(self.session, changes, f"python hostile.py {self.mark}", seconds)
        assert "alive" in run_once(self.session, {}, "echo alive", 30).output
        assert not self.still_running(), "something of it still runs"
        return result

    def still_running(self) -> list[str]:
        end = time.monotonic() + 5
        while (found := self._marked()) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def _marked(self) -> list[str]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found.append(path.read_bytes().decode("utf-8", "replace"))
            except OSError:
                continue
        return [line for line in found if self.mark in line]


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, demo: tuple[Instance, Checkout]) -> Iterator[Place]:
    way = request.param
    if way == "docker":
        if not engine_answers():
            pytest.skip("no Docker engine answers")
        build_images([demo[0].instance_id])
        yield Place(way, DockerEnvironment(connect(), "hostile", LIMITS).start(project_of(*demo)))
        return
    if way != "open" and not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    if way == "cgroup" and not cgroups_work():
        pytest.skip("no cgroup can be made here")
    if way == "other-user" and (os.geteuid() != 0 or not shutil.which("setpriv")):
        pytest.skip("only root can become another user")
    if way == "rlimits" and not process_limit_binds():
        pytest.skip("the limit of processes does not apply to this user")
    held = Confinement.RLIMITS_PER_PROCESS if way == "open" else Confinement(way)
    confined = Confined(held, LIMITS, "hostile")
    session = request.getfixturevalue("local")
    yield Place(way, replace(session, confined=confined, shut_in=way != "open"))


def ended_badly(result: CommandResult) -> bool:
    return result.timed_out or result.exit_code != 0


def test_a_daemon_is_gone_when_the_time_is_up(place: Place) -> None:
    code = IGNORES_TERM + (
        "child = [sys.executable, '-c', 'import time; time.sleep(60)', sys.argv[1]]\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execv(sys.executable, child)\n"
        "    os._exit(0)\n"
        "os.wait()\nprint('started', flush=True)\ntime.sleep(60)\n"
    )
    result = place.run(code, 2)
    assert "started" in result.output
    assert result.timed_out


def test_a_daemon_is_gone_when_the_command_has_ended(place: Place) -> None:
    code = (
        "import os, subprocess, sys\n"
        "child = [sys.executable, '-c', 'import time; time.sleep(60)', sys.argv[1]]\n"
        "subprocess.Popen(child, start_new_session=True, stdout=subprocess.DEVNULL,\n"
        "                 stderr=subprocess.DEVNULL)\nprint('started')\n"
    )
    assert place.run(code).exit_code == 0


def test_wild_forks_come_to_an_end(place: Place) -> None:
    if place.way == "open":
        pytest.skip("without a sandbox and a cgroup processes are not counted")
    code = IGNORES_TERM + (
        "for _ in range(8):\n"
        "    try:\n        os.fork()\n    except OSError:\n        pass\n"
        "os.write(1, b'here\\n')\ntime.sleep(60)\n"
    )
    result = place.run(code, 3)
    assert 1 < result.output.count("here") <= LIMITS.processes
    assert result.timed_out


def test_the_disk_does_not_fill(place: Place) -> None:
    code = (
        "import sys, time\n"
        "for number in range(200):\n"
        "    with open(f'big{number}', 'wb') as file:\n"
        "        for _ in range(5):\n            file.write(b'x' * (1 << 20))\n"
        "    print('wrote', flush=True)\n"
        "    time.sleep(0.05 if number < 11 else 0.5)\n"
    )
    result = place.run(code)
    assert ended_badly(result)
    assert result.output.count("wrote") * 5 * MB < 3 * LIMITS.written


def test_one_file_does_not_grow_without_end(place: Place) -> None:
    code = (
        "import os\n"
        "with open('big', 'wb') as file:\n"
        "    for _ in range(50):\n        file.write(b'x' * (1 << 20))\n"
        "        print('wrote', flush=True)\n"
    )
    result = place.run(code)
    assert ended_badly(result)
    assert result.output.count("wrote") <= LIMITS.file_size // MB


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm", "/", "/dev"])
def test_nothing_beside_the_work_folder_takes_much(place: Place, folder: str) -> None:
    if place.way == "open":
        pytest.skip("without a sandbox only the work folder is watched")
    code = (
        "import os, time\n"
        "for number in range(20):\n"
        f"    with open(f'{folder}/big{{number}}', 'wb') as file:\n"
        "        file.write(b'x' * (15 << 20))\n"
        "    print('wrote', flush=True)\n    time.sleep(0.3)\n"
    )
    result = place.run(code)
    assert ended_badly(result)
    assert result.output.count("wrote") * 15 * MB < 2.5 * LIMITS.written


def test_memory_has_an_end(place: Place) -> None:
    code = "kept = []\nfor _ in range(100):\n    kept.append(bytearray(b'x') * (10 << 20))\n"
    assert ended_badly(place.run(code + "print('all')\n"))


def test_memory_of_all_processes_together_has_an_end(place: Place) -> None:
    if place.way in ("other-user", "rlimits", "open"):
        pytest.skip("without a cgroup memory is limited per process")
    code = (
        "import os, time\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        kept = bytearray(b'x') * (100 << 20)\n"
        "        time.sleep(2)\n        os.write(1, b'has it')\n        os._exit(0)\n"
        "for _ in range(5):\n    os.wait()\n"
    )
    assert place.run(code).output.count("has it") < 2


def test_output_without_end_is_cut(place: Place) -> None:
    code = IGNORES_TERM + "while True:\n    os.write(1, b'spam' * 16384)\n"
    result = place.run(code, 3)
    assert result.timed_out
    assert len(result.output) < 30 * MB


def test_home_is_empty_and_no_key_is_seen(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sentinel-key")
    code = (
        "import os\nfrom pathlib import Path\n"
        "home = Path.home()\nprint(sorted(p.name for p in home.iterdir()))\n"
        "(home / '.profile').write_text('x')\nprint(dict(os.environ))\n"
    )
    if place.way == "open":
        code = "import os; print(dict(os.environ))"
    result = place.run(code)
    assert result.exit_code == 0, result.output
    # The set-up of the demo's images configures git.
    assert place.way == "open" or result.output.split("\n")[-3] in ("[]", "['.gitconfig']")
    assert "sentinel" not in result.output


def test_not_even_this_machine_is_reached(place: Place) -> None:
    if place.way == "open":
        pytest.skip("without a sandbox the network is there")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\n"
        result = place.run(code)
    assert ended_badly(result)
    assert "refused" in result.output


def test_nothing_is_left_of_what_was_written(place: Place) -> None:
    place.run("open('left-over', 'w').write('x')\n")
    result = run_once(place.session, {}, "ls; ls /tmp ~", 30)
    assert "left-over" not in result.output


def test_capabilities_are_few(place: Place) -> None:
    if place.way == "open":
        pytest.skip("without a sandbox the rights are those of the user")
    result = run_once(
        place.session, {}, "mount -t tmpfs x /mnt || unshare -Urm mount -t tmpfs x /mnt", 30
    )
    assert ended_badly(result)


@pytest.mark.parametrize(
    "code",
    [
        IGNORES_TERM + "time.sleep(60)\n",
        "import os\nos.write(1, b'PASSED tests/test_slug.py::test_lower_case\\n')\nos._exit(0)\n",
        "import time\nfor n in range(30):\n"
        "    open(f'big{n}', 'wb').write(b'x' * (10 << 20))\n    time.sleep(0.1)\n",
        "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/', timeout=2)\n",
    ],
    ids=["hangs", "leaves", "fills the disk", "needs the network"],
)
def test_no_outcome_of_it_is_a_pass(
    place: Place, demo: tuple[Instance, Checkout], tmp_path: Path, code: str
) -> None:
    if place.way not in (find_confinement().value, "docker"):
        pytest.skip("one of the local ways is enough")
    root = demo[1].root
    source = (root / "textkit/slug.py").read_text()
    tests = Preexisting(
        instance=demo[0],
        session=place.session,
        choice=TestChoice.RELATED,
        limits=TestLimits(4, 60),
        files=[str(p.relative_to(root)) for p in root.rglob("*.py")],
        read=lambda path: (root / path).read_text(),
        cache=tmp_path,
        identity=place.way,
        log=logging.getLogger("test"),
    )
    assert tests.run({"textkit/slug.py": f"{source}\n".encode()}).outcome is True
    assert tests.run({"textkit/slug.py": f"{code}\n{source}".encode()}).outcome is False


def test_a_tree_that_does_not_fit_is_infrastructure(local: LocalSession) -> None:
    if not local.shut_in:
        pytest.skip("bubblewrap is not installed")
    tiny = replace(local, confined=replace(local.confined, limits=replace(LIMITS, written=4096)))
    with pytest.raises(InfrastructureError, match=r"cannot start the sandbox.*No space"):
        run_once(tiny, {}, "true", 20)


@pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap is not installed")
def test_what_cannot_be_limited_is_said() -> None:
    assert find_confinement() is not Confinement.CGROUP or cgroups_work()
    assert not list(missing_limits(Confinement.CGROUP))
    assert len(list(missing_limits(Confinement.OTHER_USER))) == 1
    assert len(list(missing_limits(Confinement.RLIMITS_PER_PROCESS))) == 2
    assert process_limit_binds() is (os.geteuid() != 0)


@pytest.mark.skipif(not cgroups_work(), reason="no cgroup can be made here")
def test_groups_of_one_run_alone_are_removed() -> None:
    with limited_group(LIMITS, "run.a") as own, limited_group(LIMITS, "run_a") as other:
        removed = remove_groups("run.a")
        assert sorted(removed) == sorted(str(folder) for folder in own.folders)
        assert all(folder.is_dir() for folder in other.folders)
    assert not any(folder.exists() for folder in other.folders)


@pytest.mark.docker
@pytest.mark.skipif(not engine_answers(), reason="no Docker engine answers")
def test_containers_of_one_run_alone_are_removed(demo: tuple[Instance, Checkout]) -> None:
    build_images([demo[0].instance_id])
    client = connect()
    assert client is not None
    key = f"run-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        made, images = [], []
        for other in (key, f"{key}-b", ""):
            session: Any = DockerEnvironment(client, other, LIMITS).start(project_of(*demo))
            container = stack.enter_context(session.containers.started(demo[0].image)).made
            made.append(f"container {container.name}")
            images.append(client.images.get(stack.enter_context(session.prepare({})).image))
        assert remove_containers(client, key) == [made[0], f"image {images[0].short_id}"]
        assert remove_containers(client, key) == []
        left = {f"container {c.name}" for c in client.containers.list()}
        assert left >= {*made[1:]} and made[0] not in left
        assert {image.id for image in client.images.list()} >= {image.id for image in images[1:]}
        with pytest.raises(ValueError, match="key"):
            remove_containers(client, "")
