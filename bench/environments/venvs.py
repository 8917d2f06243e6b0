"""Virtual environments: the dependencies once per version, the project once per instance."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from filelock import FileLock

from agent.errors import InfrastructureError
from agent.processes import run_limited, without_secrets
from agent.workspace import Workspace
from bench.checkout import Checkout
from bench.environments.base import UnavailableError
from bench.environments.requirements import wanted_packages
from bench.instances import Instance, Spec

_MARKER = ".complete"
_BUILD_SECONDS = 1800.0
_BACKENDS = ("pip", "wheel", "setuptools-scm", "flit_core")
# setuptools 69 and later refuse much of what old setup.py files do.
_SETUPTOOLS = "setuptools<69"
# Where the name sorts last, so that the instance's own packages come first.
_BASE_LINK = "zz_base_packages.pth"
_NO_NETWORK = re.compile(
    r"dns error|failed to lookup|Temporary failure in name|Connection (?:refused|reset)|"
    r"NewConnectionError|operation timed out|tcp connect error",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|os error 28\b")
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True)
class Built:
    """A project installed for one instance.

    Attributes:
        python: the interpreter that sees the project and its dependencies.
        readable: folders that a sandbox must show for it to work.
        template: the base commit's tree as installed; copies of it are put at ``testbed``.
        testbed: the path that the installation points to.
    """

    python: Path
    readable: tuple[Path, ...]
    template: Path
    testbed: Path


@dataclass(frozen=True)
class Venvs:
    """Builds environments under ``root`` and keeps them.

    Attributes:
        failed: why a version cannot be built, so that it is tried once a run and not per instance.
    """

    root: Path
    failed: dict[str, str] = field(default_factory=dict)

    def build(self, instance: Instance, spec: Spec, base: Checkout) -> Built:
        """Return the environment of ``instance``, built when it is not there yet.

        Raises:
            UnavailableError: with the step that failed and its last words.
            InfrastructureError: the package index was not reached.
        """
        interpreter = find_python(spec.python)
        if interpreter is None:
            raise UnavailableError(
                f"no Python {spec.python} is installed (looked with uv and pyenv)"
            )
        shared = self._shared(instance, spec, base, interpreter)
        return self._project(instance, spec, base, shared, interpreter)

    def _shared(self, instance: Instance, spec: Spec, base: Checkout, interpreter: Path) -> Path:
        """Return the venv with the dependencies of a (repository, version)."""
        packages = wanted_packages(instance.repo, spec, Workspace(base.root).read)
        key = spec_key(spec, [*packages, str(interpreter)])
        name = f"{instance.repo.replace('/', '__')}-{instance.version or 'any'}-{key}"
        folder = self.root / "venvs" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{folder}.lock"):
            if name in self.failed:
                raise UnavailableError(self.failed[name])
            if not (folder / _MARKER).exists():
                shutil.rmtree(folder, ignore_errors=True)
                try:
                    _make_shared(folder, spec, packages, interpreter)
                except UnavailableError as error:
                    self.failed[name] = str(error)
                    raise
                (folder / _MARKER).touch()
        return folder

    def _project(
        self, instance: Instance, spec: Spec, base: Checkout, shared: Path, interpreter: Path
    ) -> Built:
        """Return the project as installed for one instance, on top of the shared venv."""
        folder = self.root / "instances" / instance.instance_id
        built = Built(
            python=folder / "venv" / "bin" / "python",
            readable=(interpreter.resolve().parent.parent, shared, folder / "venv"),
            template=folder / "template",
            testbed=folder / "testbed",
        )
        key = f"{shared.name} {base.base_commit}"
        marker = folder / _MARKER
        if not marker.exists() or marker.read_text() != key:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            _make_project(built, spec, base, shared, interpreter, instance.version)
            marker.write_text(key)
        return built


def spec_key(spec: Spec, more: Sequence[str] = ()) -> str:
    """Return a short hash of what decides an environment."""
    text = json.dumps([asdict(spec), *more], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def find_python(version: str) -> Path | None:
    """Return an interpreter of ``version`` (``3``, ``3.9``): from pyenv, uv or the path."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version in ("", "3", own):
        return Path(os.path.realpath(sys.executable)) if sys.prefix == sys.base_prefix else _own()
    root = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    numbers = sorted(
        root.glob(f"{version}.*"), key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)]
    )
    found = next(
        (p / "bin" / "python" for p in reversed(numbers) if (p / "bin/python").exists()), None
    )
    return found or _uv_python(version)


def _own() -> Path:
    """Return the interpreter that this one's virtual environment was made with."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return Path(os.path.realpath(Path(sys.base_prefix) / "bin" / name))


def _uv_python(version: str) -> Path | None:
    result = subprocess.run(
        [_uv(), "python", "find", "--no-python-downloads", "--no-project", "--system", version],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    path = Path(result.stdout.strip())
    return path if result.returncode == 0 and path.is_file() else None


def _uv() -> str:
    """Return uv's path: the one that is installed beside this interpreter, else the system's."""
    from uv import find_uv_bin

    return str(find_uv_bin())


def _make_shared(folder: Path, spec: Spec, packages: Sequence[str], interpreter: Path) -> None:
    _step("make a virtual environment", [_uv(), "venv", "-q", "--python", interpreter, folder])
    python = folder / "bin" / "python"
    install: list[str | Path] = [_uv(), "pip", "install", "-q", "--python", python]
    own = [*packages, *spec.pip_packages]
    named = {re.split(r"[^\w.-]", name, maxsplit=1)[0].lower() for name in own}
    tools = [*_BACKENDS, *([] if "setuptools" in named else [_SETUPTOOLS])]
    if re.search(r"\b(pytest|tox)\b", spec.test_cmd) and "pytest" not in named:
        tools.append("pytest")
    for what, names in (
        ("tools", tools),
        ("packages", packages),
        ("pip_packages", spec.pip_packages),
    ):
        if names:
            _step(f"install the {what}", [*install, *names])
    # The sandbox cannot write bytecode, and warnings of old code must not come up in every run.
    run_limited(
        [str(python), "-m", "compileall", "-q", str(folder / "lib")],
        folder, without_secrets(os.environ), _BUILD_SECONDS,
    )  # fmt: skip


def _make_project(
    built: Built, spec: Spec, base: Checkout, shared: Path, interpreter: Path, version: str
) -> None:
    venv = built.python.parent.parent
    _step("make a virtual environment", [_uv(), "venv", "-q", "--python", interpreter, venv])
    site = next((venv / "lib").glob("python*")) / "site-packages"
    base_site = next((shared / "lib").glob("python*")) / "site-packages"
    (site / _BASE_LINK).write_text(f"import site; site.addsitedir({str(base_site)!r})\n")
    shutil.copytree(base.root, built.testbed, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    for line in spec.pre_install:
        # Only edits of the tree: system packages are not ours to install.
        if line.startswith("sed "):
            _step("prepare the tree", ["bash", "-c", line], built.testbed)
    if spec.install:
        extras = re.search(r"\.(\[[\w,-]+\])", spec.install)
        target = f".{extras.group(1)}" if extras else "."
        _step(
            "install the project",
            _install(built.python, target, interpreter),
            built.testbed,
            version,
        )
    shutil.copytree(built.testbed, built.template, symlinks=True)


def _install(python: Path, target: str, interpreter: Path) -> list[str | Path]:
    """Return pip's command; it sees the shared packages, so only what is missing is fetched."""
    install: list[str | Path] = [python, "-m", "pip", "install", "-q", "--no-build-isolation"]
    if "3.6" in str(interpreter):
        return [*install, "--no-use-pep517", "-e", target]
    # A plain .pth file: import hooks of PEP 660 confuse tools such as pylint.
    return [*install, "--config-settings", "editable_mode=compat", "-e", target]


def _step(
    what: str, argv: Sequence[str | Path], cwd: Path | None = None, version: str = ""
) -> None:
    env = without_secrets(os.environ)
    env.pop("VIRTUAL_ENV", None)
    env.pop("PYTHONPATH", None)
    # The checkout has no tags: setuptools_scm could not tell the version.
    number = _VERSION.search(version)
    env["SETUPTOOLS_SCM_PRETEND_VERSION"] = number.group() if number else "0.0"
    result = run_limited([str(word) for word in argv], cwd or Path.cwd(), env, _BUILD_SECONDS)
    if result.exit_code != 0:
        words = " ".join(result.output.strip().splitlines()[-3:])[-400:]
        if _NO_NETWORK.search(result.output):
            raise InfrastructureError(f"cannot {what}, the package index is not reached: {words}")
        if _NO_SPACE.search(result.output):
            raise InfrastructureError(f"cannot {what}, the disk is full: {words}")
        raise UnavailableError(f"cannot {what}: {words}")
