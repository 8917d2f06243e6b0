"""Virtual environments: dependencies are shared per group and version, each project has its own."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from core.atomic import write_text_atomic
from core.errors import InfrastructureError
from core.processes import run_limited, without_secrets
from core.shutdown import waited_for
from core.worktree import stamps
from environments.base import ANY_PYTHON, Project, UnavailableError, VenvSpec
from environments.local.confinement import SYSTEM_PATH, command_variables
from environments.local.setup import SetupSandbox

_MARKER = ".complete"
# Kept environments of another layout are built again.
_LAYOUT = 2
_COMPILE_SECONDS = 1800.0
_BACKENDS = ("pip", "wheel", "setuptools-scm", "flit_core")
# setuptools 69 and later refuse much of what old setup.py files do.
_SETUPTOOLS = "setuptools<69"
# Sorts last, so that the project's own packages come first.
_BASE_LINK = "zz_base_packages.pth"


@dataclass(frozen=True)
class Built:
    """An installed project.

    Attributes:
        python: the interpreter that can import the project and its dependencies.
        readable: folders that must be visible in a sandbox.
        template: the installed tree; it is copied to ``testbed``.
        testbed: the path that the installation points to.
        toolchains: folders of programs that are not of Python.
    """

    python: Path
    readable: tuple[Path, ...]
    template: Path
    testbed: Path
    toolchains: tuple[Path, ...] = ()

    def command_variables(self, home: str, path: str = SYSTEM_PATH) -> dict[str, str]:
        """Return the variables of a command; ``path`` has the programs that come last.

        Set-up writes what programs fetch below the environment, and commands without a network
        read it there.
        """
        venv = self.python.parent.parent
        folders = [str(self.python.parent)]
        for folder in self.toolchains:
            folders.append(str(folder / "bin" if (folder / "bin").is_dir() else folder))
        return {
            **command_variables(self.python, home),
            "PATH": ":".join([*folders, path]),
            "CARGO_HOME": str(venv / "cargo"),
            "GOPATH": str(venv / "go"),
            "MAVEN_ARGS": f"-Dmaven.repo.local={venv / 'maven'}",
        }


@dataclass(frozen=True)
class Venvs:
    """Builds environments below ``root`` and keeps them.

    ``failed`` says why shared environments cannot be built; each is tried only once a run.
    """

    root: Path
    failed: dict[str, str] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None

    def build(self, project: Project, spec: VenvSpec) -> Built:
        """Return the environment of ``project``; a kept one is reused where nothing touched it.

        Raises:
            UnavailableError: a step failed; the message names it and the cause.
            InfrastructureError: the package index was not reached.
        """
        shared, interpreter = self._shared(project, spec)
        folder = self.root / "instances" / project.key
        tools = toolchains((*spec.setup, spec.test_command)) if not spec.install else ()
        built = Built(
            python=folder / "venv" / "bin" / "python",
            readable=(
                interpreter.resolve().parent.parent,
                shared,
                folder / "venv",
                *tools,
            ),
            template=folder / "template",
            testbed=folder / "testbed",
            toolchains=tools,
        )
        key = f"{_LAYOUT} {shared.name} {project.revision} {spec_key(spec, spec.setup)}"
        marker = folder / _MARKER
        parts = [folder / "venv", built.template]
        if not is_unchanged(marker, key, parts):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            steps = self._steps(project.key, project)
            _make_project(steps, built, spec, project.root, shared, interpreter)
            seal(marker, key, parts)
        return built

    def dependencies(self, project: Project, spec: VenvSpec) -> Path:
        """Return the interpreter of the environment with the dependencies of ``project`` alone."""
        return self._shared(project, spec)[0] / "bin" / "python"

    def _shared(self, project: Project, spec: VenvSpec) -> tuple[Path, Path]:
        interpreter = find_python(spec.python)
        if interpreter is None:
            raise UnavailableError(
                f"no Python {spec.python} is installed (looked with uv and pyenv)"
            )
        name = shared_name(project, spec, interpreter)
        folder = self.root / "venvs" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        with waited_for(FileLock(f"{folder}.lock"), self.check):
            if name in self.failed:
                raise UnavailableError(self.failed[name])
            if not is_unchanged(folder / _MARKER, name, [folder]):
                shutil.rmtree(folder, ignore_errors=True)
                try:
                    _make_shared(self._steps(name, project), folder, spec, interpreter)
                except UnavailableError as error:
                    self.failed[name] = str(error)
                    raise
                seal(folder / _MARKER, name, [folder])
        return folder, interpreter

    def _steps(self, name: str, project: Project) -> BuildSteps:
        log = self.root / "logs" / f"{name}.log"
        log.unlink(missing_ok=True)
        title = f"{project.group} {project.version}".strip()
        return BuildSteps(title, log, self.check, project.version)


def shared_name(
    project: Project,
    spec: VenvSpec,
    interpreter: Path,
) -> str:
    key = spec_key(spec, [*spec.packages, str(interpreter)])
    return f"{project.group.replace('/', '__')}-{project.version or 'any'}-{key}"


def spec_key(
    spec: VenvSpec,
    parts: Sequence[str] = (),
) -> str:
    text = json.dumps([spec.source, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def find_python(version: str) -> Path | None:
    """Return an interpreter of ``version`` (``3``, ``3.9``) from pyenv, uv or PATH."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version in ("", ANY_PYTHON, own):
        base = Path(sys.base_prefix) / "bin" / f"python{own}"
        return Path(
            os.path.realpath(sys.executable if sys.prefix == sys.base_prefix else base)
        )
    root = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
    numbers = sorted(
        root.glob(f"{version}.*"),
        key=lambda p: [int(n) for n in re.findall(r"\d+", p.name)],
    )
    for folder in reversed(numbers):
        if (folder / "bin/python").exists():
            return folder / "bin" / "python"
    result = subprocess.run(
        [
            _uv(),
            "python",
            "find",
            "--no-python-downloads",
            "--no-project",
            "--system",
            version,
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    path = Path(result.stdout.strip())
    if result.returncode == 0 and path.is_file():
        return path
    return None


def _uv() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def _make_shared(
    steps: BuildSteps,
    folder: Path,
    spec: VenvSpec,
    interpreter: Path,
) -> None:
    steps.run(
        "make a virtual environment",
        [_uv(), "venv", "-q", "--python", interpreter, folder],
    )
    python = folder / "bin" / "python"
    # Linked files would be shared with uv's cache and every other environment.
    install: list[str | Path] = [_uv(), "pip", "install", "-q", "--link-mode", "copy"]
    install += ["--python", python]
    own = [*spec.packages, *spec.pip_packages]
    named = {re.split(r"[^\w.-]", name, maxsplit=1)[0].lower() for name in own}
    tools = [*_BACKENDS, *([] if "setuptools" in named else [_SETUPTOOLS])]
    if re.search(r"\b(pytest|tox)\b", spec.test_command) and "pytest" not in named:
        tools.append("pytest")
    for what, names in (
        ("tools", tools),
        ("packages", spec.packages),
        ("pip_packages", spec.pip_packages),
    ):
        if names:
            steps.run(f"install the {what}", [*install, *names])
    # The sandbox cannot write bytecode, and old code must not warn in every run.
    run_limited(
        [str(python), "-m", "compileall", "-q", str(folder / "lib")],
        folder,
        without_secrets(os.environ),
        _COMPILE_SECONDS,
        check=steps.check,
    )


def _make_project(
    steps: BuildSteps,
    built: Built,
    spec: VenvSpec,
    root: Path,
    shared: Path,
    interpreter: Path,
) -> None:
    venv = built.python.parent.parent
    # Set-up lines that are the whole installation call pip, which must not be the shared one.
    seed = ["--seed"] if spec.setup and not spec.install else []
    make: list[str | Path] = [_uv(), "venv", "-q", *seed, "--python", interpreter, venv]
    steps.run("make a virtual environment", make)
    site = next((venv / "lib").glob("python*")) / "site-packages"
    base_site = next((shared / "lib").glob("python*")) / "site-packages"
    shutil.copytree(
        root, built.testbed, symlinks=True, ignore=shutil.ignore_patterns(".git")
    )
    sandbox = SetupSandbox.make(
        tree=built.testbed,
        venv=venv,
        readable=built.readable,
        variables=built.command_variables(""),
        check=steps.check,
    )
    for line in spec.setup:
        steps.run("set up the tree", ["bash", "-c", line], sandbox)
    # Not before: pip would leave out programs that the shared environment has for itself.
    (site / _BASE_LINK).write_text(
        f"import site; site.addsitedir({str(base_site)!r})\n"
    )
    if spec.install:
        command = _install(built.python, spec.install, interpreter)
        steps.run("install the project", command, sandbox)
    sandbox.remove_home()
    _copy_programs(shared, venv)
    shutil.copytree(built.testbed, built.template, symlinks=True)


def _copy_programs(shared: Path, venv: Path) -> None:
    """Let programs of shared packages, such as pytest, start with the project's interpreter."""
    # They name it by the path at which it was installed, which may lead through a link.
    installed = re.compile(
        rb"/[^\s'\"]*/" + re.escape(shared.name).encode() + rb"(?=/bin/)"
    )
    for path in (shared / "bin").iterdir():
        copy = venv / "bin" / path.name
        if path.is_symlink() or copy.exists():
            continue
        content = path.read_bytes()
        if content.startswith(b"#!"):
            copy.write_bytes(installed.sub(lambda _: bytes(venv), content))
            copy.chmod(0o755)


def _install(
    python: Path,
    target: str,
    interpreter: Path,
) -> list[str | Path]:
    # It sees the shared packages, so it fetches missing ones only.
    install: list[str | Path] = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-build-isolation",
    ]
    if "3.6" in str(interpreter):
        return [*install, "--no-use-pep517", "-e", target]
    # A plain .pth file: import hooks of PEP 660 confuse tools such as pylint.
    return [*install, "--config-settings", "editable_mode=compat", "-e", target]


_SECONDS = 1800.0
_NO_NETWORK = re.compile(
    r"dns error|failed to lookup|Temporary failure in name|Connection (?:refused|reset)|"
    r"NewConnectionError|operation timed out|tcp connect error",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|os error 28\b")
_VERSION = re.compile(r"\d+(?:\.\d+)+")
# Most telling first: the exception of a setup script, then pip's closing lines, then hints.
_CAUSES = (
    re.compile(r"^\s*(?:[\w.]+\.)?\w*(?:Error|Exception|Exit)\b(?::.*)?$"),
    re.compile(r"^\s*(?:ERROR|error|fatal error|E)\b:?\s.*|.*\berror:\s.*"),
    re.compile(r"^\s*(?:×|╰─▶|╰─>)\s.*"),
)
_GENERIC = re.compile(
    r"subprocess-exited-with-error|metadata-generation-failed|See above for"
)
_LONGEST = 300


@dataclass(frozen=True)
class BuildSteps:
    """Runs the steps of one build, whose output goes to ``log``.

    ``version`` is for setuptools_scm, which finds no tags in the checkout.
    """

    project: str
    log: Path
    check: Callable[[], None]
    version: str = ""

    def run(
        self,
        what: str,
        argv: Sequence[str | Path],
        sandbox: SetupSandbox | None = None,
    ) -> None:
        """Run a command of the harness's own, or one of the project in its sandbox."""
        command_line = [str(word) for word in argv]
        launched = command_line
        # Not in the current folder, whose uv.toml could name another package index.
        folder = Path("/")
        if sandbox:
            launched = sandbox.command_line(command_line)
            folder = sandbox.tree
            env = dict(sandbox.variables)
        else:
            env = without_secrets(os.environ)
            env.pop("VIRTUAL_ENV", None)
            env.pop("PYTHONPATH", None)
        number = _VERSION.search(self.version)
        env["SETUPTOOLS_SCM_PRETEND_VERSION"] = number.group() if number else "0.0"
        result = run_limited(launched, folder, env, _SECONDS, check=self.check)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"$ {shlex.join(command_line)}\n{result.output}\n")
        if result.exit_code == 0:
            return
        cause = error_line(result.output)
        failure = f"cannot {what} of {self.project}"
        if _NO_NETWORK.search(result.output):
            raise InfrastructureError(
                f"{failure}, the package index is not reached: {cause}"
            )
        if _NO_SPACE.search(result.output):
            raise InfrastructureError(f"{failure}, the disk is full: {cause}")
        ended = cause
        if result.timed_out:
            ended = "it did not end in time"
        command = shlex.join([Path(command_line[0]).name, *command_line[1:]])
        raise UnavailableError(f"{failure} (`{command}`): {ended}; log: {self.log}")


def error_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    specific = [line for line in lines if not _GENERIC.search(line)]
    for cause in _CAUSES:
        matches = [line for line in specific if cause.match(line)]
        if matches:
            return matches[-1][:_LONGEST]
    if lines:
        return lines[-1][:_LONGEST]
    return "it printed nothing"


_SYSTEM = ("/usr/", "/bin/", "/lib/")
# What rustup puts into PATH only starts programs that lie elsewhere.
_SYSROOT = dict.fromkeys(("cargo", "rustc"), ("rustc", "--print", "sysroot"))


def toolchains(commands: Iterable[str]) -> tuple[Path, ...]:
    """Return the folders of the programs that shell ``commands`` name and no sandbox shows.

    Those of Python environments are left out, because commands have one of their own. Of a folder
    in the user's home, such as ~/.cargo, only ``bin`` counts: it holds more than programs.
    """
    roots: dict[Path, None] = {}
    for word in dict.fromkeys(re.findall(r"[\w.+-]+", " ".join(commands))):
        named = Path(shutil.which(word) or "/usr/none")
        if str(named).startswith(_SYSTEM) or (named.parent / "python").exists():
            continue
        folders = [path.parent for path in (named, named.resolve())]
        if word in _SYSROOT:
            sysroot = run_limited(
                _SYSROOT[word], Path("/"), without_secrets(os.environ), 60.0
            )
            folders = [Path(sysroot.output.strip()) / "bin"]
        own = [
            folder.name == "bin" and folder.parent.parent != Path.home()
            for folder in folders
        ]
        pairs = zip(folders, own, strict=True)
        roots |= dict.fromkeys(
            folder.parent if is_own else folder for folder, is_own in pairs
        )
    private = {Path.home(), *Path.home().parents}
    return tuple(root for root in roots if root not in private and root.is_dir())


def seal(
    marker: Path,
    key: str,
    folders: Sequence[Path],
) -> None:
    """Record in ``marker`` that ``folders`` are complete, with a hash of their state."""
    write_text_atomic(marker, f"{key}\n{_look(folders, marker)}\n")


def is_unchanged(
    marker: Path,
    key: str,
    folders: Sequence[Path],
) -> bool:
    """Return whether ``folders`` were sealed for ``key`` and not changed since.

    Test code without a sandbox could write there with the user's rights. Only the kernel sets the
    time of a file's last change, so contents need not be read.
    """
    try:
        return (
            marker.read_text(encoding="utf-8") == f"{key}\n{_look(folders, marker)}\n"
        )
    except (OSError, UnicodeDecodeError):
        return False


def _look(folders: Sequence[Path], marker: Path) -> str:
    digest = hashlib.sha256()
    for folder in folders:
        for path, stamp in sorted(stamps(folder).items()):
            if folder / path != marker:
                digest.update(
                    f"{path}\0{tuple(stamp)}\0".encode("utf-8", "surrogateescape")
                )
    return digest.hexdigest()
