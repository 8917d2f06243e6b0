"""Packages of environments: their era, their build tools, and what a project needs."""

from __future__ import annotations

import io
import json
import shutil
import ssl
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from swe_retry.core.errors import InfrastructureError
from swe_retry.environments.base import (
    BrokenEnvironmentError,
    LocalServer,
    Project,
    UnavailableError,
    VenvSpec,
    run_once,
)
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.environments.local.buildsteps import BuildSteps
from swe_retry.environments.local.environment import LocalEnvironment, LocalSession
from swe_retry.environments.local.packages import (
    NO_UPLOAD_TIMES,
    build_requirements,
    check_index,
    project_requirements,
)
from swe_retry.environments.local.toolchains import find_python
from swe_retry.environments.local.venvs import Venvs, shared_name
from tests.support import write_files

# Installers take seconds of CPU for each environment.
pytestmark = pytest.mark.system
TOOLS = ("pip", "wheel", "setuptools-scm", "flit-core", "setuptools")


class _Quiet(SimpleHTTPRequestHandler):
    def guess_type(self, path: object) -> str:
        if str(path).endswith(".html"):
            return "application/vnd.pypi.simple.v1+json"
        return "application/octet-stream"

    def log_message(self, *_: object) -> None:
        pass


@dataclass
class Index:
    """A package index on loopback: ``uploads`` by (name, version), empty for unstated."""

    folder: Path
    address: str
    uploads: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, name: str, version: str, upload: str) -> None:
        self.uploads[name, version] = upload
        own = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        self._write_wheel(name.replace("-", "_"), version, own)
        files = []
        for (other, number), time in self.uploads.items():
            if other != name:
                continue
            wheel = f"{name.replace('-', '_')}-{number}-py3-none-any.whl"
            file = {"filename": wheel, "url": f"{self.address}/{wheel}", "hashes": {}}
            if time:
                file["upload-time"] = f"{time}T12:00:00Z"
            files.append(file)
        page = {"meta": {"api-version": "1.1"}, "name": name, "files": files}
        write_files(self.folder, {f"simple/{name}/index.html": json.dumps(page)})

    def add_module(self, name: str, version: str, path: str, text: str) -> None:
        """Add a package for builds that has one file."""
        self.add(name, version, "2016-01-01")
        wheel = self.folder / f"{name}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr(path, text)

    def add_source(self, name: str, requires: list[str], setup: str) -> None:
        """Add a source distribution; its ``setup.py`` runs before it is built."""
        wheel = f"{name}-1.0-py3-none-any.whl"
        self._write_wheel(name, "1.0", wheel)
        files = {
            "pyproject.toml": f"[build-system]\nrequires = {requires}\n",
            "setup.py": setup,
            "PKG-INFO": f"Metadata-Version: 1.0\nName: {name}\nVersion: 1.0\n",
        }
        contents = {path: text.encode() for path, text in files.items()}
        contents[wheel] = (self.folder / wheel).read_bytes()
        source = f"{name}-1.0.tar.gz"
        with tarfile.open(self.folder / source, "w:gz") as archive:
            for path, content in contents.items():
                member = tarfile.TarInfo(f"{name}-1.0/{path}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        file = {
            "filename": source,
            "url": f"{self.address}/{source}",
            "hashes": {},
            "upload-time": "2016-01-01T12:00:00Z",
        }
        page = {"meta": {"api-version": "1.1"}, "name": name, "files": [file]}
        write_files(self.folder, {f"simple/{name}/index.html": json.dumps(page)})

    def _write_wheel(self, name: str, version: str, file: str) -> None:
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(self.folder / file, "w") as archive:
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            archive.writestr(f"{info}/METADATA", metadata)
            tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            archive.writestr(f"{info}/WHEEL", tags)
            archive.writestr(f"{info}/RECORD", "")


@contextmanager
def serving(folder: Path, certificate: Path | None = None) -> Iterator[str]:
    """Serve a folder on loopback, over TLS with a certificate, and return the address."""
    handler = partial(_Quiet, directory=str(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    scheme = "http"
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"{scheme}://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    folder = tmp_path / "index"
    folder.mkdir()
    with serving(folder) as address:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{address}/simple")
        monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
        made = Index(folder, address)
        for tool in TOOLS:
            made.add(tool, "1.0", "2016-01-01")
        yield made


def make_project(root: Path, spec: VenvSpec) -> Project:
    return Project(
        key="own__thing-1",
        group="own/thing",
        version="1.0",
        root=root,
        revision="1",
        venv=spec,
        image=UnavailableError(""),
    )


def versions_in(python: Path) -> set[str]:
    site = next((python.parent.parent / "lib").glob("python*")) / "site-packages"
    return {folder.name for folder in site.glob("*.dist-info")}


@pytest.mark.parametrize(
    ("pin", "expected"),
    [
        ("pinned==1.0", "library-3.0"),  # uploaded later than the quarter of the row
        ("pinned", "library-2.0"),
    ],
)
def test_packages_are_of_the_era(
    index: Index, tmp_path: Path, pin: str, expected: str
) -> None:
    index.add("pinned", "1.0", "2031-05-05")
    index.add("pinned", "0.9", "2030-01-02")
    index.add("library", "1.0", "2030-01-01")
    index.add("library", "2.0", "2030-03-31")
    index.add("library", "3.0", "2031-05-05")
    index.add("library", "4.0", "2031-05-06")
    spec = VenvSpec(packages=("library",), pip_packages=(pin,), date="2030-02-03")
    python = Venvs(tmp_path / "venvs").dependencies(make_project(tmp_path, spec), spec)
    assert f"{expected}.dist-info" in versions_in(python)


def test_the_last_pins_win_in_one_resolution(index: Index, tmp_path: Path) -> None:
    index.add("library", "1.0", "2020-01-01")
    index.add("library", "2.0", "2020-01-01")
    spec = VenvSpec(
        packages=("library==1.0",), pip_packages=("library==2.0",), date="2030-02-03"
    )
    python = Venvs(tmp_path / "venvs").dependencies(make_project(tmp_path, spec), spec)
    assert "library-2.0.dist-info" in versions_in(python)


# In the place of setuptools: the wheel lies in the source distribution.
BACKEND = """
import runpy, shutil, sys
from pathlib import Path
def build_wheel(folder, *_):
    runpy.run_path("setup.py")
    wheel = next(Path().glob("*.whl"))
    return shutil.copy(wheel, folder) and wheel.name
__legacy__ = sys.modules[__name__]
"""


@pytest.mark.parametrize(
    ("setup", "cause"),
    [
        ("from setuptools.build_meta import Feature; import CCompiler", ""),
        ("from setuptools.build_meta import Between; import CCompiler", ""),
        ("from setuptools.build_meta import Later; import Cython3", ""),
        ("from setuptools.build_meta import Later; import CCompiler", "CCompiler"),
        # It has a version of its own, not the project's.
        ("import os; assert 'SETUPTOOLS_SCM_PRETEND_VERSION' not in os.environ", ""),
    ],
)
def test_source_distributions_are_built_with_tools_of_the_era_or_older(
    index: Index, tmp_path: Path, setup: str, cause: str
) -> None:
    names = {"45.3": "Feature", "59.8": "Between", "61.0": "Later"}
    for version, name in names.items():
        text = f"{BACKEND}{name} = 1\n"
        index.add_module("setuptools", version, "setuptools/build_meta.py", text)
    for version, name in (("0.29", "CCompiler"), ("3.0", "Cython3")):
        index.add_module("cython", version, f"{name}.py", "")
    index.add_source("old", ["setuptools", "cython"], setup)
    spec = VenvSpec(packages=("old",), date="2030-02-03")
    venvs = Venvs(tmp_path / "venvs")
    project = make_project(tmp_path, spec)
    if cause:
        with pytest.raises(BrokenEnvironmentError, match=cause):
            venvs.dependencies(project, spec)
        return
    python = venvs.dependencies(project, spec)
    assert "old-1.0.dist-info" in versions_in(python)


def test_an_index_without_upload_times_is_named_and_used(
    index: Index, tmp_path: Path
) -> None:
    for tool in TOOLS:
        index.add(tool, "1.0", "")
    index.add("library", "4.0", "")
    lines: list[str] = []
    spec = VenvSpec(packages=("library",), date="2030-02-03")
    venvs = Venvs(tmp_path / "venvs", warn=lines.append)
    python = venvs.dependencies(make_project(tmp_path, spec), spec)
    assert "library-4.0.dist-info" in versions_in(python)
    assert lines == [NO_UPLOAD_TIMES]


def test_the_era_belongs_to_the_key() -> None:
    spec = VenvSpec(date="2030-02-03")
    python = Path("/usr/bin/python3")
    first = shared_name(spec, python, "2030-04-01")
    assert first != shared_name(spec, python, "2030-07-01")
    assert first != shared_name(spec, python)


def test_what_cannot_be_resolved_is_named_as_broken(
    index: Index, tmp_path: Path
) -> None:
    spec = VenvSpec(packages=("absent==1.0",))
    venvs = Venvs(tmp_path / "venvs")
    project = make_project(tmp_path, spec)
    for group in ("own/thing", "own/other"):
        cause = f"{group} 1.0 .* absent was not found"
        with pytest.raises(BrokenEnvironmentError, match=cause):
            venvs.dependencies(replace(project, group=group), spec)


def test_projects_with_equal_specs_have_their_packages_in_common(
    index: Index, tmp_path: Path
) -> None:
    for tool in TOOLS:
        index.add(tool, "1.0", "")
    spec = VenvSpec()
    venvs = Venvs(tmp_path / "venvs")
    project = make_project(tmp_path, spec)
    python = venvs.dependencies(project, spec)
    other = replace(project, group="own/other", version="2.0")
    assert venvs.dependencies(other, spec) == python


def test_results_of_another_python_are_others(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two installations of the harness may share a cache, and each tests with its own Python."""
    index.add_module("tool", "1.0", "tool.py", "")
    spec = VenvSpec(packages=("tool",), test_command="true")
    project = make_project(tmp_path / "tree", spec)
    write_files(project.root, {"a.py": ""})
    environment = LocalEnvironment(tmp_path / "environments", print)
    first = environment.start(project).identity
    assert environment.start(project).identity == first
    interpreter = find_python("")
    assert interpreter
    other = tmp_path / "python3.99"
    other.symlink_to(interpreter)
    monkeypatch.setattr(
        "swe_retry.environments.local.venvs.find_python", lambda _: other
    )
    assert environment.start(project).identity != first


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of this address that no program trusts, and its key."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl is installed")
    path = tmp_path_factory.mktemp("certificate") / "own.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"]
    command += ["-keyout", str(path), "-out", f"{path}.crt", "-subj", "/CN=own"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(command, check=True, capture_output=True)
    with path.open("a") as file:
        file.write(Path(f"{path}.crt").read_text())
    return path


@pytest.fixture
def secure_index(
    index: Index, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Index]:
    """The index, over TLS only."""
    with serving(index.folder, certificate) as address:
        monkeypatch.setenv("UV_DEFAULT_INDEX", f"{address}/simple")
        yield index


def test_an_index_is_checked_over_tls(
    secure_index: Index,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InfrastructureError, match=r"not reached: .* certificate"):
        check_index()
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    check_index()


def test_an_index_that_is_not_trusted_is_a_fault_of_the_machine(
    secure_index: Index, tmp_path: Path
) -> None:
    spec = VenvSpec(packages=("library",))
    with pytest.raises(InfrastructureError, match="the package index is not reached"):
        Venvs(tmp_path / "venvs").dependencies(make_project(tmp_path, spec), spec)


def test_packages_of_conda_that_pip_does_not_have_are_left_out(
    index: Index, tmp_path: Path
) -> None:
    index.add("library", "1.0", "2020-01-01")
    lines: list[str] = []
    spec = VenvSpec(
        packages=("absent==1.0",),
        from_conda=True,
        pip_packages=("library==1.0",),
        date="2030-02-03",
    )
    venvs = Venvs(tmp_path / "venvs", warn=lines.append)
    python = venvs.dependencies(make_project(tmp_path, spec), spec)
    assert "library-1.0.dist-info" in versions_in(python)
    assert len(lines) == 1
    assert "absent was not found" in lines[0]


def test_a_project_is_built_with_the_tools_that_it_names(
    tmp_path: Path, cache: Path
) -> None:
    """Its backend is in no list of the harness, and what it needs is installed once."""
    tree = {
        "pyproject.toml": "[build-system]\nrequires = ['hatchling']\n"
        "build-backend = 'hatchling.build'\n"
        "[project]\nname = 'thing'\nversion = '1.0'\ndependencies = ['packaging', 'six']\n"
        "[project.optional-dependencies]\ntest = ['toml']\nother = ['tabulate']\n",
        "thing/__init__.py": "import six, toml\n",
    }
    write_files(tmp_path / "tree", tree)
    spec = VenvSpec(
        python="3",
        packages=("packaging==24.0",),
        install=".[test]",
        test_command="true",
        date="2024-05-06",
    )
    project = make_project(tmp_path / "tree", spec)
    environment = LocalEnvironment(cache / "built", print)
    session = environment.start(project)
    lines = "import thing, packaging; print(packaging.__version__); import tabulate"
    result = run_once(session, {}, f"python -c '{lines}'", 60)
    session.stop()
    assert "24.0" in result.output
    assert "No module named 'tabulate'" in result.output
    packages = cache / "built/instances/own__thing-1/packages"
    assert not (packages / "needs/packaging").exists()
    assert not (packages / "build").exists()


ASKED = """
import socket
listening = socket.create_server(("127.0.0.1", 5000))
while True:
    listening.accept()[0].sendall(b"hello")
"""
START = """
echo noise
(exec "$SERVER_PYTHON" -I -m asked &)
export ASKED=/dev/tcp/127.0.0.1/5000
timeout 10 bash -c "until : <$ASKED; do sleep 0.02; done"
"""
ASK = "timeout 5 head -c 5 <${ASKED-/dev/null}; exit 3"


@pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap is not installed")
def test_a_server_runs_beside_each_command_in_a_sandbox(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add_module("asked", "1.0", "asked.py", ASKED)
    # What the tree has is no part of the server.
    tree = tmp_path / "tree"
    write_files(tree, {"asked.py": "", "socket.py": ""})
    plain = VenvSpec(test_command="true", date="2030-02-03")
    spec = replace(plain, server=LocalServer(["asked"], START))
    environment = LocalEnvironment(tmp_path / "environments", print)
    without = environment.start(make_project(tree, plain))
    session = environment.start(make_project(tree, spec))
    for _ in range(2):
        result = run_once(session, {}, ASK, 60)
        assert (result.output, result.exit_code) == ("hello", 3)
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [command for command in commands if b"\0-m\0asked\0" in command]
    # The project's environment is the same, but its results may be others.
    assert isinstance(session, LocalSession)
    assert "asked-1.0.dist-info" not in versions_in(session.built.python)
    assert session.identity != without.identity
    monkeypatch.setattr(
        "swe_retry.environments.local.environment.bubblewrap_works", lambda: False
    )
    opened = environment.start(make_project(tree, spec))
    assert run_once(opened, {}, ASK, 60).output == ""


@pytest.mark.skipif(not bubblewrap_works(), reason="bubblewrap is not installed")
def test_a_server_that_does_not_start_is_a_fault_of_the_environment(
    index: Index, tmp_path: Path
) -> None:
    index.add_module("asked", "1.0", "asked.py", "raise SystemExit")
    server = LocalServer(["asked"], START.replace("10", "0.5"))
    spec = VenvSpec(test_command="true", date="2030-02-03", server=server)
    environment = LocalEnvironment(tmp_path / "environments", print)
    (tmp_path / "tree").mkdir()
    session = environment.start(make_project(tmp_path / "tree", spec))
    with pytest.raises(InfrastructureError, match="did not start"):
        run_once(session, {}, "true", 60)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("[build-system]\nrequires = 1\n", []),
        ("[build-system\n", []),
        (
            "[build-system]\nrequires = ['a>=1', 'b @ file:///x', '-e .', 'c']\n",
            ["a>=1", "c"],
        ),
    ],
)
def test_build_requirements(tmp_path: Path, text: str, expected: list[str]) -> None:
    write_files(tmp_path, {"pyproject.toml": text})
    assert build_requirements(tmp_path) == expected


def test_requirements_of_the_python_and_the_extras(tmp_path: Path) -> None:
    text = "six\n\n[:python_version < '3.8']\nold\n\n[test]\ntoml>=1\n\n[doc]\nsphinx\n"
    info = {"PKG-INFO": "Name: thing\nVersion: 1\n", "requires.txt": text}
    write_files(tmp_path / "thing.egg-info", info)
    assert project_requirements([tmp_path], ["test"], (3, 9)) == ["six", "toml>=1"]
    assert project_requirements([tmp_path], [""], (3, 7)) == ["six", "old"]


def test_the_cause_of_a_failed_step_does_not_name_all_packages(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    steps = BuildSteps("own/thing 1.0", log, lambda: None)
    names = [f"package-{number}" for number in range(99)]
    with pytest.raises(BrokenEnvironmentError) as caught:
        steps.run("install packages", ["sh", "-c", "echo error: no; exit 1", *names])
    cause = str(caught.value)
    assert "package-9 " in cause
    assert "package-98" not in cause
    assert cause.endswith(f"…`): error: no; log: {log}")
    assert "package-98" in log.read_text()


def test_pythons_are_told_apart_by_their_numbers() -> None:
    from swe_retry.environments.local.toolchains import python_version

    assert python_version("3.6") == (3, 6)
    assert python_version("3.13.6") == (3, 13)
    assert find_python("3") is not None
