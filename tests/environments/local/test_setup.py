"""Set-up commands of a project: what they reach, and what they leave."""

from __future__ import annotations

import json
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.environments.base import Project, UnavailableError, VenvSpec, run_once
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.environments.local.environment import LocalEnvironment
from swe_retry.environments.local.packages import NO_UPLOAD_TIMES
from tests.fixtures import ShareVenvs
from tests.support import write_files

needs_bubblewrap = pytest.mark.skipif(
    not bubblewrap_works(), reason="bubblewrap is not installed"
)
SECRET = "sk-of-the-user-1234"
# Writes what it reaches into the tree, the home and the environment.
LOOK = """
import json, os, pathlib, socket, sys

def readable(path):
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""

port, private = sys.argv[1:]
processes = [p for p in pathlib.Path("/proc").iterdir() if p.name.isdigit()]
home = pathlib.Path.home()
seen = {
    "environments": "".join(readable(p / "environ") for p in processes),
    "commands": "".join(readable(p / "cmdline") for p in processes),
    "variables": dict(os.environ),
    "home": sorted(p.name for p in home.iterdir()),
    "private": readable(pathlib.Path(private)),
    "answer": socket.create_connection(("127.0.0.1", int(port)), 5).recv(9).decode(),
}
try:
    pathlib.Path(private).write_text("changed")
except OSError:
    pass
(home / "left").write_text("x")
pathlib.Path(sys.prefix, "left").write_text("x")
pathlib.Path("seen.json").write_text(json.dumps(seen))
"""


@pytest.fixture
def server() -> Any:
    """The port of a server on this machine, which says hello."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"hello")

    threading.Thread(target=answer, daemon=True).start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


@pytest.fixture(scope="module")
def environment(cache: Path, share_venvs: ShareVenvs) -> LocalEnvironment:
    share_venvs(cache / "setups")
    return LocalEnvironment(cache / "setups", print)


def project(root: Path, *setup: str) -> Project:
    return Project(
        key=f"own__{root.parent.name}",
        group="own/thing",
        version="",
        root=root,
        revision="1",
        venv=VenvSpec(setup=setup, test_command="true", source={"python": ""}),
        image=UnavailableError(""),
    )


def test_no_file_is_linked_to_another_environment_s(
    tmp_path: Path, share_venvs: ShareVenvs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set-up lines could write there, and each new link changes the time of a file."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    share_venvs(tmp_path / "environments")
    environment = LocalEnvironment(tmp_path / "environments", print)
    write_files(tmp_path / "tree", {"a.txt": "a"})
    session: Any = environment.start(project(tmp_path / "tree", "pip --version"))
    session.stop()
    venv = session.built.python.parent.parent
    modules = [file.stat().st_nlink for file in venv.rglob("*.py")]
    assert len(modules) > 100
    assert set(modules) == {1}


@needs_bubblewrap
def test_set_up_reaches_the_network_and_nothing_of_the_user(
    tmp_path: Path,
    environment: LocalEnvironment,
    server: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    write_files(home, {"private.txt": SECRET, ".netrc": SECRET})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("DATABASE", f"postgres://me:{SECRET}@db")
    monkeypatch.setenv("PIP_INDEX_URL", f"https://me:{SECRET}@example.org/simple")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "http://npm.example.org")
    write_files(tmp_path / "tree", {"look.py": LOOK})
    line = f"python look.py {server} {home / 'private.txt'}"
    session = environment.start(project(tmp_path / "tree", line))
    seen = json.loads(run_once(session, {}, "cat seen.json", 60).output)
    session.stop()
    assert seen["answer"] == "hello"
    assert SECRET not in json.dumps(seen)
    assert str(os.getpid()) not in seen["commands"]
    assert "pytest" not in seen["commands"].split("\0")
    assert seen["home"] == ["tmp"]
    assert seen["variables"]["NPM_CONFIG_REGISTRY"] == "http://npm.example.org"
    assert not seen["variables"].keys() & {"DATABASE", "PIP_INDEX_URL"}
    assert (home / "private.txt").read_text() == SECRET
    assert not (home / "left").exists()
    # What it installs stays.
    assert run_once(session, {}, "cat $VIRTUAL_ENV/left", 60).output == "x"


def test_lines_of_a_set_up_share_their_home_which_goes(
    tmp_path: Path, environment: LocalEnvironment
) -> None:
    write_files(tmp_path / "tree", {"a.txt": "a"})
    lines = ("echo $HOME >~/a", "cat ~/a >home", "test ! -e $HOME/b")
    session = environment.start(project(tmp_path / "tree", *lines))
    home = Path(run_once(session, {}, "cat home", 60).output.strip())
    session.stop()
    assert home.is_absolute()
    assert not home.exists()


DATES = ("UV_EXCLUDE_NEWER", "PIP_UPLOADED_PRIOR_TO", "npm_config_before")


@pytest.mark.system  # pip installs
@needs_bubblewrap
def test_a_date_limits_what_set_up_installs(
    tmp_path: Path, share_venvs: ShareVenvs
) -> None:
    share_venvs(tmp_path / "environments")
    notes: list[str] = []
    environment = LocalEnvironment(tmp_path / "environments", notes.append)
    write_files(tmp_path / "tree", {"a.txt": "a"})
    lines = ("env >variables", "pip install -q --no-deps --target found click")
    dated = project(tmp_path / "tree", *lines)
    assert isinstance(dated.venv, VenvSpec)
    dated = replace(dated, venv=replace(dated.venv, date="2024-05-14"))
    session = environment.start(dated)
    if NO_UPLOAD_TIMES in notes:
        pytest.skip("the index gives no upload times")
    assert "click-8.1.7.dist-info" in run_once(session, {}, "ls found", 60).output
    variables = run_once(session, {}, "cat variables", 60).output
    assert {f"{name}=2024-05-14T23:59:59Z" for name in DATES} <= set(variables.split())
    # A run on an issue has no date, and gets packages of today.
    session = environment.start(project(tmp_path / "tree", lines[0]))
    variables = run_once(session, {}, "cat variables", 60).output
    assert not any(name in variables for name in DATES)


def test_a_set_up_that_fails_is_named_as_it_was_given(
    tmp_path: Path, environment: LocalEnvironment
) -> None:
    write_files(tmp_path / "tree", {"a.txt": "a"})
    with pytest.raises(UnavailableError) as caught:
        environment.start(project(tmp_path / "tree", "echo 'error: no b'; false"))
    message = str(caught.value)
    assert "error: no b" in message
    assert "bwrap" not in message


@pytest.mark.parametrize("shut_in", [True, False])
def test_sessions_of_one_project_do_not_wait_for_each_other_s_end(
    tmp_path: Path,
    environment: LocalEnvironment,
    monkeypatch: pytest.MonkeyPatch,
    shut_in: bool,
) -> None:
    if shut_in and not bubblewrap_works():
        pytest.skip("bubblewrap is not installed")
    monkeypatch.setattr(
        "swe_retry.environments.local.environment.bubblewrap_works", lambda: shut_in
    )
    looks = iter(range(60))

    def check() -> None:
        next(looks)

    patient = replace(environment, check=check)
    write_files(tmp_path / "tree", {"a.txt": "a"})
    made = project(tmp_path / "tree")
    first = environment.start(made)
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(run_once, first, {}, "sleep 2; cat a.txt", 60)
        second = patient.start(made)
        assert run_once(second, {"a.txt": b"b"}, "cat a.txt", 60).output == "b"
        assert slow.result().output == "a"
    first.stop()
    assert run_once(second, {}, "cat a.txt", 60).output == "a"
