"""The real local and Docker environments: what runs, what is visible, what is killed."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.demo.images import build_images
from swe_retry.environments.base import (
    EnvironmentKind,
    Prepared,
    Session,
    UnavailableError,
    run_once,
)
from swe_retry.environments.choice import NoEnvironment, make_environment
from swe_retry.environments.docker.containers import LABEL
from swe_retry.environments.docker.engine import connect, engine_answers
from swe_retry.environments.docker.environment import DockerEnvironment
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.environments.local.environment import LocalEnvironment, LocalSession
from swe_retry.instances.instance import Instance, Spec
from swe_retry.repositories.checkout import Checkout
from swe_retry.testing.project import project_of
from tests.fixtures import ShareVenvs, an_instance
from tests.support import still_running

needs_bubblewrap = pytest.mark.skipif(
    not bubblewrap_works(), reason="bubblewrap is not installed"
)
HELLO = "python -c 'import textkit; print(textkit.__file__, textkit.slugify(\"A b\"))'"


@pytest.fixture(
    scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)]
)
def session(
    request: pytest.FixtureRequest,
    cache: Path,
    demo: tuple[Instance, Checkout],
) -> Iterator[Session]:
    """A session on the demo's first instance, in each environment."""
    environment: Any
    if request.param == "docker":
        instance, _ = demo
        build_images([instance.instance_id])
        environment = DockerEnvironment(connect())
    else:
        environment = LocalEnvironment(cache / "environments", print)
    session = environment.start(project_of(*demo))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def unchanged(session: Session) -> Iterator[Prepared]:
    """The tree as it is, set up once."""
    with session.prepare({}) as prepared:
        yield prepared


def test_tests_run_with_the_project_installed(
    session: Session, unchanged: Prepared
) -> None:
    result = unchanged.run(f"{session.test_command} tests/test_slug.py", 60)
    assert "PASSED tests/test_slug.py::test_lower_case" in result.output
    assert result.exit_code == 0


def test_changes_are_there_for_one_command_only(session: Session) -> None:
    source = b"def slugify(text):\n    return 'changed'\n"
    changes: dict[str, bytes | None] = {
        "textkit/slug.py": source,
        "new/folder/file.txt": b"new\n",
        "README.md": None,
    }
    command = f"cat new/folder/file.txt; ls; {HELLO}; touch left-over"
    result = run_once(session, changes, command, 60)
    assert "new\n" in result.output
    assert "README.md" not in result.output
    assert "changed" in result.output
    again = run_once(session, {}, f"ls; {HELLO}", 60)
    assert "README.md" in again.output
    assert "left-over" not in again.output
    assert "a-b" in again.output
    path = word_before("changed", result.output)
    assert word_before("a-b", again.output) == path, "always the same path"


def word_before(word: str, output: str) -> str:
    before, _, _ = output.partition(word)
    return before.split()[-1]


def test_folders_take_the_place_of_files_and_names_may_be_odd(session: Session) -> None:
    changes: dict[str, bytes | None] = {
        "README.md": None,
        "README.md/x": b"below\n",
        "textkit/slug.py": None,
        "textkit/__init__.py": None,
        "textkit/wrap.py": None,
        "textkit": b"a file\n",
        "a\nb": b"line end\n",
        "caf\udce9": b"latin\n",
        "ends. ": b"space\n",
        "-rf": b"dash\n",
    }
    command = r"cat README.md/x textkit $'a\nb' $'caf\xe9' 'ends. ' ./-rf"
    result = run_once(session, changes, command, 60)
    assert result.output.split("\n")[-7:] == [
        "below",
        "a file",
        "line end",
        "latin",
        "space",
        "dash",
        "",
    ]
    assert result.exit_code == 0


def test_a_command_is_killed_with_all_its_children_when_its_time_is_up(
    unchanged: Prepared,
) -> None:
    started = time.monotonic()
    command = "trap '' TERM; (trap '' TERM; setsid sleep 71.5 &) ; sleep 71.5; echo end"
    result = unchanged.run(command, 2)
    assert result.timed_out
    assert "end" not in result.output
    assert time.monotonic() - started < 60
    assert not still_running("71.5")


def test_a_failing_command_says_so(unchanged: Prepared) -> None:
    result = unchanged.run("echo out; echo err >&2; exit 3", 30)
    assert result.exit_code == 3
    assert result.timed_out is False
    assert "out" in result.output
    assert "err" in result.output


def test_there_is_no_network(session: Session, unchanged: Prepared) -> None:
    if isinstance(session, LocalSession) and not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    result = unchanged.run(f'python -c "{code}"', 30)
    assert result.exit_code not in (0, None)
    assert "unreachable" in result.output


def test_no_secret_and_no_git_is_seen(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sentinel-key")
    monkeypatch.setenv("HOME_SENTINEL", "sentinel-home")
    result = run_once(session, {}, "env; ls -a; ls -a ~", 30)
    assert "sentinel" not in result.output


@needs_bubblewrap
def test_bubblewrap_hides_the_machine(
    cache: Path,
    demo: tuple[Instance, Checkout],
    share_venvs: ShareVenvs,
) -> None:
    share_venvs(cache / "bubblewrap")
    # Not where the fixture's session holds its environment: this one would wait for it.
    environment = LocalEnvironment(cache / "bubblewrap", print)
    session = environment.start(project_of(*demo))
    here = Path(__file__).resolve()
    command = f"cat {here}; touch /usr/x; touch $VIRTUAL_ENV/x; ls -a"
    try:
        result = run_once(session, {}, command, 30)
        mount = run_once(session, {}, "mount -o remount,bind,rw /usr", 30)
    finally:
        session.stop()
    assert "bubblewrap_hides" not in result.output
    assert "Read-only" in result.output or "Permission" in result.output
    assert ".git\n" not in result.output
    assert mount.exit_code != 0


def test_a_template_that_was_written_to_is_made_again(
    demo: tuple[Instance, Checkout],
    tmp_path: Path,
    share_venvs: ShareVenvs,
) -> None:
    """Code without a sandbox could have written there, without a change of size and time."""
    share_venvs(tmp_path / "environments")
    environment = LocalEnvironment(tmp_path / "environments", print)
    first: Any = environment.start(project_of(*demo))
    first.stop()
    source = first.built.template / "textkit/slug.py"
    before = source.read_bytes()
    times = source.stat()
    source.write_bytes(before.replace(b"lower", b"upper"))
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    second: Any = environment.start(project_of(*demo))
    second.stop()
    assert source.read_bytes() == before
    marker = second.built.template.with_name(".complete")
    times = marker.stat()
    environment.start(project_of(*demo)).stop()
    # What was not touched is kept.
    assert marker.stat().st_mtime_ns == times.st_mtime_ns


@needs_bubblewrap
def test_what_ran_without_a_sandbox_has_folders_of_its_own(
    demo: tuple[Instance, Checkout],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    share_venvs: ShareVenvs,
) -> None:
    share_venvs(tmp_path / "environments")  # with those of other sandboxes
    environment = LocalEnvironment(tmp_path / "environments", print)
    shut_in: Any = environment.start(project_of(*demo))
    shut_in.stop()
    monkeypatch.setattr(
        "swe_retry.environments.local.environment.bubblewrap_works", lambda: False
    )
    without: Any = environment.start(project_of(*demo))
    without.stop()
    assert shut_in.built.template != without.built.template
    for folder in without.built.readable[1:]:
        assert folder not in shut_in.built.readable[1:]
        for file in folder.rglob("*.py"):
            # A linked file could be changed through its other name.
            assert file.stat().st_nlink == 1


@pytest.mark.docker
def test_no_container_is_left(demo: tuple[Instance, Checkout]) -> None:
    client = connect()
    assert client is not None
    instance, _ = demo
    build_images([instance.instance_id])
    # Other processes may test the same instance in this engine.
    key = f"run-{secrets.token_hex(4)}"
    labels = [f"{LABEL}.instance={instance.tested_as}", f"{LABEL}.run={key}"]
    ours = {"label": labels}
    environment = DockerEnvironment(client, key)
    session: Any = environment.start(project_of(*demo))
    with session.containers.start(session.image.name):
        assert len(client.containers.list(all=True, filters=ours)) == 1
    run_once(session, {}, "setsid sleep 99 & sleep 99", 1)
    assert client.containers.list(all=True, filters=ours) == []


@pytest.mark.docker
def test_setup_output_is_no_test_result(demo: tuple[Instance, Checkout]) -> None:
    instance, _ = demo
    build_images([instance.instance_id])
    session: Any = DockerEnvironment(connect()).start(project_of(*demo))
    image = replace(session.image, setup=("echo PASSED forged::test",))
    session = replace(session, image=image)
    assert "forged" not in run_once(session, {}, "echo real", 30).output


def test_an_engine_that_goes_away_is_infrastructure(
    demo: tuple[Instance, Checkout],
) -> None:
    import docker

    client = docker.DockerClient(
        base_url="tcp://127.0.0.1:9", version="1.41", timeout=2
    )
    with pytest.raises(InfrastructureError, match="engine failed"):
        DockerEnvironment(client).start(project_of(*demo))


def test_docker_without_an_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    assert not engine_answers()
    with pytest.raises(UserError, match="no Docker engine answers"):
        make_environment(EnvironmentKind.DOCKER, Path("/nowhere"), print)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (None, "no spec"),
        (Spec(python="2.9", test_cmd="pytest"), "no Python 2.9 is installed"),
        (
            Spec(test_cmd="pytest -rA", pip_packages=("no-such-package-at-all==9",)),
            "cannot install",
        ),
    ],
)
def test_what_cannot_be_built_is_unavailable_with_the_reason(
    tmp_path: Path,
    demo: tuple[Instance, Checkout],
    spec: Spec | None,
    problem: str,
) -> None:
    environment = LocalEnvironment(tmp_path, print)
    _, checkout = demo
    project = project_of(an_instance(spec=spec), checkout)
    for _ in range(2):  # also not when a half-made environment lies there
        with pytest.raises(UnavailableError, match=problem):
            environment.start(project)


def test_none_runs_nothing(demo: tuple[Instance, Checkout]) -> None:
    with pytest.raises(UnavailableError):
        NoEnvironment().start(project_of(*demo))
