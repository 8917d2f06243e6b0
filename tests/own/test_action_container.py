"""The steps of action.yml in a fresh container, with a model on loopback.

ACTION_IMAGE names an image with bash, git, python3 and python3-venv, and ACTION_DOCKER_OPTIONS has
further options of `docker run`, such as mounts with a package index's configuration.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support import TOP
from tests.support.action import TOKEN, Runner, run_action
from tests.support.ownworld import (
    FILES,
    RIGHT,
    SOURCE,
    WRONG,
    make_repository,
    run_git,
)
from tests.support.provider import Provider

pytestmark = [
    pytest.mark.long,
    pytest.mark.docker,
]
KEY = "sk-sentinel-0123456789abcdef"
ISSUE = "::error::add subtracts $(touch /tmp/pwned)\n\nadd(2, 3) is -1, should be 5."
JOB = Path("/job")
# bubblewrap in a container makes namespaces and mounts /proc.
OPTIONS = """
--detach --init --network host --cap-add SYS_ADMIN --cap-add NET_ADMIN
--security-opt seccomp=unconfined --security-opt apparmor=unconfined
--security-opt systempaths=unconfined
"""
# Fails where a test sees a key, another process, the job's folders or the network. Its own file
# has the keys' names in two parts, because the search finds them in any file.
LOOK = f"""
import os, pathlib, socket

WORDS = ["{KEY[:12]}" "{KEY[12:]}", "{TOKEN[:9]}" "{TOKEN[9:]}"]


def seen():
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            yield path.read_text("utf-8", "replace")
        except OSError:
            pass
    yield repr(dict(os.environ))


def test_no_key():
    assert not any(word in text for text in seen() for word in WORDS)


def test_no_folder_of_the_job():
    assert not os.path.exists("{JOB}/files")
    assert not os.path.exists("{JOB}/workspace")


def test_no_network():
    try:
        socket.create_connection(("127.0.0.1", %d), 2)
    except OSError:
        return
    assert False, "a server on loopback is reached"
"""
SETUP = "env >/tmp/seen-by-setup\n\npython --version"


def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["docker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def container() -> Iterator[str]:
    image = os.environ.get("ACTION_IMAGE", "python:3.11-slim")
    extra_options = shlex.split(os.environ.get("ACTION_DOCKER_OPTIONS", ""))
    options = [*OPTIONS.split(), *extra_options]
    start = docker("run", *options, image, "sleep", "infinity")
    assert start.returncode == 0, start.stderr
    name = start.stdout.strip()
    try:
        for command in (
            "git --version",
            "python3 -c 'import ensurepip'",
            "python3 -m venv /tmp/probe && /tmp/probe/bin/pip install -q hatchling",
        ):
            probe = docker("exec", name, "bash", "-c", command)
            if probe.returncode:
                last_line = probe.stderr.strip().rpartition("\n")[2]
                pytest.skip(f"{image}: {command} fails ({last_line}); set ACTION_IMAGE")
        yield name
    finally:
        docker("rm", "--force", "--volumes", name)


def make_job(container: str, user: str, folder: Path, port: int) -> Runner:
    """Lay out a checkout whose remote is a bare repository, and the project, in the container."""
    files = {**FILES, "tests/test_look.py": LOOK % port}
    source = make_repository(folder / "source", files)
    job = folder / "job"
    remote = job / "me/calc.git"
    workspace = job / "workspace"
    run_git(folder, "clone", "--quiet", "--bare", str(source), str(remote))
    run_git(folder, "clone", "--quiet", str(source), str(workspace))
    url = f"file://{JOB}/me/calc.git"
    run_git(workspace, "remote", "set-url", "origin", url)
    (job / "temp").mkdir()
    names = run_git(TOP, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in names.split("\0"):
        if (TOP / name).is_file():
            copy = job / "action" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / name, copy)
    copying = docker("cp", str(job), f"{container}:{JOB}")
    assert copying.returncode == 0
    # root gets a checkout of another user, as in the container of a job.
    script = f"""
        if [ {user} = root ]; then chown -R 1234 {JOB}/workspace; exit; fi
        command -v sudo >/dev/null || exit 9
        useradd --create-home {user} && chown -R {user} {JOB}
        echo '{user} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/{user}"""
    done = docker("exec", container, "bash", "-ec", script)
    if done.returncode == 9:
        pytest.skip("the image has no sudo")
    assert done.returncode == 0, done.stderr
    prefix = ("docker", "exec", "--user", user, container)
    return Runner(JOB, JOB / "action", prefix)


@pytest.mark.parametrize("user", ["root", "runner"])
def test_the_steps_in_a_fresh_container(
    container: str, user: str, tmp_path: Path
) -> None:
    with Provider() as provider:
        provider.will_answer(*RIGHT)
        port = urlsplit(provider.url).port
        assert port
        job = make_job(container, user, tmp_path, port)
        home = "/root"
        if user != "root":
            home = f"/home/{user}"
        keys = {
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": provider.url,
            "HOME": home,
        }
        inputs = {
            "issue": ISSUE,
            "models": "gpt-4o",
            "budget-usd": "1",
            "attempts": "1",
            "setup-cmd": SETUP,
            "test-cmd": "pytest",
        }
        done = run_action(job, inputs, **keys)
        print(user, done.seconds, done.printed, done.outputs, sep="\n")
        assert done.code == 0, done.printed
        assert any(KEY in str(headers) for headers in provider.headers)
        git = "git -c safe.directory='*' "

        branch = done.outputs["branch"]
        assert done.outputs["outcome"] == "plausible"
        assert branch.startswith("retry-harness/text-")
        assert 0 < float(done.outputs["cost-usd"]) < 1
        assert "+    return a + b" in job.read(done.outputs["patch"])
        assert job.read(done.outputs["summary"]) == done.summary
        # The tests that look for keys pass, before and after; and they do see them otherwise.
        assert "`python -m pytest`: 5 pass, 0 fail" in done.summary
        assert "all tests: 5 pass, 0 fail" in done.summary
        look = job.command(
            "for name in no_key no_folder_of_the_job no_network; do PYTHONPATH=tests python3 -B -c"
            ' "import test_look; test_look.test_$name()" 2>/dev/null && exit 1; done; true',
            **keys,
        )
        assert look.returncode == 0, "a look outside of the sandbox finds nothing"

        log = job.command(f"{git} log --format='%an|%s|%P' '{branch}' -2").stdout
        last, first = log.splitlines()
        base = job.command(f"{git} rev-parse HEAD").stdout.strip()
        title = ISSUE.splitlines()[0]
        assert last == f"github-actions[bot]|{title}|{base}"
        assert first.endswith("|First|")
        fixed = job.command(f"{git} show '{branch}:lib/calc.py'").stdout
        assert fixed == SOURCE.replace("a - b", "a + b")
        assert not job.command(f"{git} status --porcelain").stdout
        references = job.command(f"{git} ls-remote origin").stdout
        commits = {line.split()[0] for line in references.splitlines()}
        assert commits == {base}

        folders = f"{JOB}/workspace {JOB}/temp {JOB}/files {JOB}/me /tmp {home}"
        for secret in (KEY, TOKEN):
            assert secret not in done.printed
            assert secret not in str(done.outputs)
            search = job.command(f"grep -rlF {secret} {folders}")
            assert search.stdout == ""
            assert search.returncode == 1, search.stderr
        assert "PATH=" in job.read("/tmp/seen-by-setup")
        assert job.command("test -e /tmp/pwned").returncode == 1

        # A run without a plausible patch is red, and tells all the same; the venv is there.
        provider.answers.clear()
        provider.will_answer(*WRONG)
        red = run_action(job, inputs, **keys)
        print(red.seconds, red.outputs)
        assert red.code == 1
        assert red.outputs["outcome"] == "not plausible"
        assert red.outputs["branch"] == ""
        assert "**Not plausible" in red.summary
        assert float(red.outputs["cost-usd"]) > 0


def test_without_a_sandbox_nothing_runs(container: str, tmp_path: Path) -> None:
    job = make_job(container, "root", tmp_path, 9)
    bwrap = "/usr/local/bin/bwrap"
    command = f"printf '#!/bin/sh\\nexit 1\\n' >{bwrap}; chmod +x {bwrap}"
    assert job.command(command).returncode == 0
    inputs = {"models": "gpt-4o", "budget-usd": "1", "issue": "add subtracts"}
    done = run_action(job, inputs, OPENAI_API_KEY=KEY, HOME="/root")
    assert done.code == 1, done.printed
    assert len(done.seconds) == 2
    assert done.printed.count("::error::") == 1
    assert "bubblewrap" in done.printed
    assert not any(done.outputs.values())
