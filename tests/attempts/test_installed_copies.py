"""The sandbox hides installed releases of the project: a search by content finds none."""

from __future__ import annotations

import shlex
import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.grammars import SUFFIXES
from swe_retry.attempts.config import ModelChoice, RunConfig
from swe_retry.demo.images import build_images
from swe_retry.demo.setup import DEMO_DATASET
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.copies import find_hidden, read_sources
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from tests.support import write_files
from tests.support.harness import Harness
from tests.support.reporting import report
from tests.support.runs import config

ID = "demo__textkit-1"
BASE = DEMO_DATASET / "repositories/demo__textkit/textkit/slug.py"
IMAGE = f"swe-retry-harness/{ID}:demo"
LINE = "PLANTED = 'a release of the project'"
FIXED = f"{BASE.read_text()}\n\n{LINE}\n"
SITE = "lib/python3.11/site-packages"
OWN_PACKAGES = "usr/local/lib/python3.11/dist-packages"
# What is no release, and no zip file.
CONTROL = "share/notes.txt"
PROGRAM = "bin/program"
needs_bubblewrap = pytest.mark.skipif(
    not bubblewrap_works(), reason="bubblewrap is not installed"
)
# What lies beside interpreters, by kind: their packages, vendored and bundled ones, caches.
PLANTED = {
    f"{SITE}/textkit/slug.py": FIXED,
    f"{SITE}/textkit/unlike.py": LINE,
    f"{SITE}/pip/_vendor/textkit/slug.py": FIXED,
    f"{SITE}/textkit-9.dist-info/METADATA": f"Name: textkit\nVersion: 9\n\n{LINE}\n",
    "cache/uv/archive-v0/x1/textkit/slug.py": FIXED,
    "cache/uv/archive-v0/x1/textkit/unlike.py": LINE,
    "pkgs/textkit-9/info/textkit-9.tar.bz2": LINE,
    "opt/sdk/third_party/textkit/slug.py": FIXED,
    # Stores that name files by their content.
    f".cache/pip/http-v2/a/b/c/d/e/{'ab' * 28}.body": LINE,
    f".npm/_cacache/content-v2/sha512/00/1f/{'ab' * 62}": LINE,
    f".store/v3/files/00/{'ab' * 63}-exec": LINE,
    f"mirror.git/objects/ab/{'cd' * 19}": LINE,
    f"mirror.git/objects/pack/pack-{'ab' * 20}.pack": LINE,
}
OWN = {
    f"{SITE}/textkit/slug.py": FIXED,
    f"{SITE}/textkit-9.dist-info/METADATA": "Name: textkit\nVersion: 9\n",
    f"{SITE}/textkit-9.dist-info/RECORD": "textkit/slug.py,,\n",
    f"{SITE}/pip/_vendor/textkit/slug.py": FIXED,
    f"{SITE}/pip-9.dist-info/METADATA": "Name: pip\nVersion: 9\n",
    f"{SITE}/pip-9.dist-info/RECORD": "pip/_vendor/textkit/slug.py,,\n",
    f"{SITE}/helper-1.dist-info/METADATA": "Name: helper\nVersion: 1\n",
}
ENVIRONMENTS = [
    pytest.param(EnvironmentKind.NONE, marks=needs_bubblewrap),
    pytest.param(EnvironmentKind.LOCAL, marks=needs_bubblewrap),
    pytest.param(EnvironmentKind.DOCKER, marks=pytest.mark.docker),
]


def plant(folder: Path) -> None:
    """Make ``folder`` look like the prefix of an interpreter with releases in it."""
    write_files(folder, {**PLANTED, CONTROL: LINE, PROGRAM: f"PK\5\6 {LINE}"})
    wheel = "lib/python3.11/ensurepip/_bundled/pip-9-py3-none-any.whl"
    for name in (wheel, "bin/bundled"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("pip/_vendor/textkit/slug.py", FIXED)


def make_agent(folder: Path, **metadata: str) -> Path:
    """Make a virtual environment with a program that prints where ``LINE`` is, and edits."""
    own = OWN | {"pyvenv.cfg": ""}
    for name, text in metadata.items():
        own[f"{SITE}/{name}-1.dist-info/METADATA"] += text
    write_files(folder, own)
    program = folder / "bin/finder"
    program.parent.mkdir()
    search = ["grep", "-srlF", "--binary-files=text", LINE, "/"]
    for name in ("proc", "sys", "usr"):
        search.append(f"--exclude-dir={name}")
    # /usr of this machine has much to read, and nothing was planted there.
    edit = "echo '# edited' >>textkit/slug.py"
    program.write_text(f"#!/bin/sh\n{shlex.join(search)}\n{edit}\n")
    program.chmod(0o755)
    return program


def finder(
    program: Path, environment: EnvironmentKind, *readable: Path, **changes: Any
) -> RunConfig:
    values: dict[str, Any] = {
        "agent": f"command:{program}",
        "agent_sandbox": "closed",
        "agent_sandbox_read": readable,
        "agent_timeout": 120,
        "environment": environment,
        "models": (ModelChoice.parse("my-a", any_name=True),),
        "replay": None,
        "tries": 1,
        **changes,
    }
    return config(**values)


@pytest.fixture
def image(tmp_path: Path) -> Iterator[None]:
    """Plant releases in the instance's image meanwhile."""
    import docker

    build_images([ID])
    client = docker.from_env()
    original = client.images.get(IMAGE)
    folder = tmp_path / "layer"
    plant(folder / "opt/conda")
    pip = f"{OWN_PACKAGES}/pip/_vendor/textkit/slug.py"
    write_files(folder, {pip: FIXED, "root/.cache/pip/textkit/slug.py": FIXED})
    container = client.containers.create(IMAGE)
    packed = tmp_path / "layer.tar"
    with tarfile.open(packed, "w") as archive:
        archive.add(folder, ".")
    container.put_archive("/", packed.read_bytes())
    container.commit(*IMAGE.split(":"))
    container.remove()
    yield
    planted = client.images.get(IMAGE).id
    original.tag(IMAGE)
    client.images.remove(planted)


def found_paths(harness: Harness) -> list[str]:
    (attempt,) = harness.attempts(ID)
    return sorted(attempt["messages"][1]["content"].split())


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_a_search_by_content_finds_no_release(
    harness: Harness,
    tmp_path: Path,
    environment: EnvironmentKind,
    request: pytest.FixtureRequest,
) -> None:
    prefix = tmp_path / "prefix"
    plant(prefix)
    # In a container a link to a folder is a folder.
    link = tmp_path / "link"
    link.symlink_to(prefix)
    expected = [str(prefix / CONTROL), str(prefix / PROGRAM)]
    if environment is EnvironmentKind.DOCKER:
        request.getfixturevalue("image")
        expected += [str(link / CONTROL), str(link / PROGRAM)]
        expected += [f"/opt/conda/{CONTROL}", f"/opt/conda/{PROGRAM}"]
    program = make_agent(tmp_path / "own")
    harness.solve(finder(program, environment, link), ID)
    assert found_paths(harness) == sorted(expected)
    (attempt,) = harness.attempts(ID)
    assert f"{prefix}/{SITE}" in attempt["hidden_paths"]
    assert "readable_copies" not in attempt
    assert "readable_copies" not in harness.prediction(ID)


def test_what_a_package_vendors_is_no_release_of_it(tmp_path: Path) -> None:
    """It may be in no package there, and be a package that the tests need."""
    write_files(
        tmp_path,
        {
            "project/kit/__init__.py": "",
            "project/kit/_vendor/six.py": FIXED,
            "venv/pyvenv.cfg": "",
            f"venv/{SITE}/six.py": f"{FIXED}\n",
            f"venv/{SITE}/kit/_vendor/six.py": f"{FIXED}\n",
        },
    )
    sources = read_sources(tmp_path / "project", SUFFIXES)
    hidden = find_hidden(sources, (tmp_path / "venv",), ())
    assert hidden == {f"{tmp_path}/venv/{SITE}/kit"}
    # Each attempt has a checkout of its own, for which nothing is searched again.
    shutil.copytree(tmp_path / "project", tmp_path / "again")
    sources = read_sources(tmp_path / "again", SUFFIXES)
    assert find_hidden(sources, (tmp_path / "venv",), ()) is hidden


@needs_bubblewrap
@pytest.mark.parametrize("requires", ["", "Requires-Dist: TextKit>=1\n"])
def test_what_an_agent_itself_needs_is_marked(
    harness: Harness,
    tmp_path: Path,
    requires: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Records are published, without the name of the user.
    monkeypatch.setenv("HOME", str(tmp_path))
    program = make_agent(tmp_path / "own", helper=requires)
    prediction = harness.solve(finder(program, EnvironmentKind.NONE), ID)
    package = f"own/{SITE}/textkit"
    readable = [package] if requires else []
    found = [f"{tmp_path}/{path}/slug.py" for path in readable]
    assert found_paths(harness) == found
    recorded = [f"~/{path}" for path in readable]
    assert prediction.get("readable_copies", []) == recorded
    (attempt,) = harness.attempts(ID)
    hidden = [f"~/{package}", f"~/own/{SITE}/pip/_vendor/textkit"][len(readable) :]
    assert set(hidden) <= set(attempt["hidden_paths"])
    if requires:
        run = harness.file("")
        (line, *_) = report(run, page=True)
        assert "could read an installed copy" in line
        page = (run / "report/report.html").read_text()
        assert "could read an installed copy" in page
        assert f"~/{package}" in (run / f"report/instances/{ID}.html").read_text()
