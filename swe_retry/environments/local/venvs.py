"""Virtual environments: dependencies are shared per group and version, each project has its own."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from filelock import FileLock

from swe_retry.core.hashing import sha256_of
from swe_retry.core.processes import run_limited, without_secrets
from swe_retry.core.shutdown import waited_for
from swe_retry.environments.base import BrokenEnvironmentError, Project, VenvSpec
from swe_retry.environments.local.buildsteps import BuildSteps
from swe_retry.environments.local.confinement import SYSTEM_PATH, command_variables
from swe_retry.environments.local.packages import (
    FURTHER_REQUIREMENTS,
    Installer,
    build_requirements,
    copy_metadata,
    end_of_quarter,
    find_era,
    from_index,
    limit_of_day,
    pins,
    project_requirements,
    uv_path,
)
from swe_retry.environments.local.seals import is_unchanged, seal
from swe_retry.environments.local.setup import SetupSandbox
from swe_retry.environments.local.sharing import left_by_setup, setup_state
from swe_retry.environments.local.toolchains import (
    find_python,
    no_python,
    python_version,
    toolchains,
)

_MARKER = ".complete"
# Kept environments of another layout are built again.
_LAYOUT = 3
_COMPILE_SECONDS = 1800.0
# Later pips do not run setup.py, without which old projects are not installed in place.
_TOOLS = ("pip<25.3", "wheel", "setuptools-scm", "flit_core")
# The first Python whose last pip knows this option.
_CONFIG_SETTINGS = (3, 7)
# setuptools 69 and later refuse much of what old setup.py files do.
_SETUPTOOLS = "setuptools<69"
# Sorts last, so that the project's own packages come first.
_BASE_LINK = "zz_base_packages.pth"


_Base = tuple[Path, Path, str]
"""The environment of a project's dependencies, its interpreter and the era of its packages."""


@dataclass(frozen=True)
class Built:
    """An installed project.

    Attributes:
        python: the interpreter that can import the project and its dependencies.
        shared: the environment of its dependencies, whose name stands for interpreter and packages.
        readable: folders that must be visible in a sandbox.
        template: the installed tree; it is copied to ``testbed``.
        testbed: the path that the installation points to.
        toolchains: folders of programs that are not of Python.
    """

    python: Path
    shared: Path
    readable: tuple[Path, ...]
    template: Path
    testbed: Path
    toolchains: tuple[Path, ...]

    def command_variables(self, home: str, path: str = SYSTEM_PATH) -> dict[str, str]:
        """Return the variables of a command; ``path`` has the programs that come last.

        Set-up writes what programs fetch below the environment, and commands without a network
        read it there.
        """
        venv = self.python.parent.parent
        folders = [str(self.python.parent)]
        for folder in self.toolchains:
            programs = folder / "bin"
            if programs.is_dir():
                folder = programs
            folders.append(str(folder))
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

    ``failed`` says why a shared environment cannot be built, by project and name; each is tried
    only once a run.
    """

    root: Path
    failed: dict[tuple[str, str], str] = field(default_factory=dict)
    check: Callable[[], None] = lambda: None
    warn: Callable[[str], None] = lambda _: None

    def build(self, project: Project, spec: VenvSpec) -> Built:
        """Return the environment of ``project``; a kept one is reused where nothing touched it.

        Raises:
            BrokenEnvironmentError: a step failed; the message names it and the cause.
            InfrastructureError: the package index was not reached.
        """
        base = self._find_shared(project, spec)
        alone = self.root / "instances" / project.key
        if spec.install or not spec.setup:
            return self._set_up(alone, project, spec, base)
        state = setup_state(project.root, spec.setup)
        name = spec_key(spec, [*spec.setup, base[0].name, project.version, state])
        folder = self.root / "setups" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        with waited_for(FileLock(f"{folder}.lock"), self.check):
            # The tree of any commit with this state will do.
            built = self._set_up(folder, replace(project, revision=""), spec, base)
        if not _left_file(built).is_file():
            return self._set_up(alone, project, spec, base)
        return self._use(built, alone, project)

    def _use(self, built: Built, folder: Path, project: Project) -> Built:
        """Return a set-up with the files of ``project``, and with what it left in its tree."""
        own = replace(built, template=folder / "template")
        key = f"{_LAYOUT} {built.testbed} {project.revision}"
        if not is_unchanged(folder / _MARKER, key, [own.template]):
            shutil.rmtree(folder, ignore_errors=True)
            _copy(project.root, own.template)
            for path in _left_file(built).read_text("utf-8").splitlines():
                _copy(built.template / path, own.template / path)
            seal(folder / _MARKER, key, [own.template])
        return own

    def _set_up(
        self, folder: Path, project: Project, spec: VenvSpec, base: _Base
    ) -> Built:
        shared, interpreter, era = base
        tools = toolchains((*spec.setup, spec.test_command)) if not spec.install else ()
        built = Built(
            python=folder / "venv" / "bin" / "python",
            shared=shared,
            readable=(
                interpreter.resolve().parent.parent,
                shared,
                folder / "venv",
                folder / "packages",
                *tools,
            ),
            template=folder / "template",
            testbed=folder / "testbed",
            toolchains=tools,
        )
        key = f"{_LAYOUT} {shared.name} {project.revision} {spec_key(spec, spec.setup)}"
        marker = folder / _MARKER
        parts = [folder / "venv", folder / "packages", built.template]
        if not is_unchanged(marker, key, parts):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            steps = self._steps(project.key, project)
            # Not the environment's own Python, which code of the project could replace.
            installer = Installer(steps, interpreter, era, folder / "packages")
            _make_project(installer, built, spec, project.root, shared, interpreter)
            left = left_by_setup(project.root, built.template, folder / "venv")
            if left is not None:
                _left_file(built).write_text("\n".join(left), "utf-8")
            seal(marker, key, parts)
        # Each command gets a copy of the template there, in a sandbox in memory.
        shutil.rmtree(built.testbed, ignore_errors=True)
        return built

    def dependencies(self, project: Project, spec: VenvSpec) -> Path:
        """Return the interpreter of the environment with the dependencies of ``project`` alone."""
        return self._find_shared(project, spec)[0] / "bin" / "python"

    def _find_shared(self, project: Project, spec: VenvSpec) -> _Base:
        """Return the shared environment, its interpreter and the era of its packages."""
        try:
            return self._make_shared(project, spec)
        except BrokenEnvironmentError as error:
            if not spec.from_conda:
                raise
            self.warn(
                f"without the packages that {project.group} has of conda: {error}"
            )
            return self._make_shared(project, replace(spec, packages=()))

    def _make_shared(self, project: Project, spec: VenvSpec) -> _Base:
        interpreter = find_python(spec.python)
        if not interpreter:
            raise BrokenEnvironmentError(no_python(spec.python))
        era = self._era(project, spec, interpreter)
        name = shared_name(spec, interpreter, era)
        key = (project.group, name)
        folder = self.root / "venvs" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        with waited_for(FileLock(f"{folder}.lock"), self.check):
            if key in self.failed:
                raise BrokenEnvironmentError(self.failed[key])
            if not is_unchanged(folder / _MARKER, name, [folder]):
                shutil.rmtree(folder, ignore_errors=True)
                try:
                    steps = self._steps(name, project)
                    _install_shared(steps, folder, spec, interpreter, era)
                except BrokenEnvironmentError as error:
                    self.failed[key] = str(error)
                    raise
                seal(folder / _MARKER, name, [folder])
        return folder, interpreter, era

    def _era(self, project: Project, spec: VenvSpec, interpreter: Path) -> str:
        if not spec.date:
            return ""
        quarter = end_of_quarter(spec.date)
        name = shared_name(spec, interpreter, quarter)
        folder = self.root / "eras" / name
        folder.parent.mkdir(parents=True, exist_ok=True)
        version = python_version(spec.python)
        with waited_for(FileLock(f"{folder}.lock"), self.check):
            steps = self._steps(f"{name}.era", project)
            return find_era(spec, steps, interpreter, version, folder, self.warn)

    def _steps(self, name: str, project: Project) -> BuildSteps:
        log = self.root / "logs" / f"{name}.log"
        log.unlink(missing_ok=True)
        title = f"{project.group} {project.version}".strip()
        return BuildSteps(title, log, self.check, project.version)


def shared_name(spec: VenvSpec, interpreter: Path, era: str = "") -> str:
    """Return the name of an environment that all projects with equal specs have in common."""
    parts = [*spec.packages, str(interpreter)]
    if era:
        parts.append(era)
    return spec_key(spec, parts)


def spec_key(spec: VenvSpec, parts: Sequence[str]) -> str:
    text = json.dumps([spec.source, *parts], sort_keys=True)
    return sha256_of(text)[:12]


def _install_shared(
    steps: BuildSteps, folder: Path, spec: VenvSpec, interpreter: Path, era: str
) -> None:
    steps.run(
        "make a virtual environment",
        [uv_path(), "venv", "-q", "--python", interpreter, folder],
    )
    python = folder / "bin" / "python"
    own = [*spec.packages, *spec.pip_packages]
    named = {re.split(r"[^\w.-]", name, maxsplit=1)[0].lower() for name in own}
    tools = [tool for tool in _TOOLS if tool not in named]
    if "setuptools" not in named:
        tools.append(_SETUPTOOLS)
    if re.search(r"\b(pytest|tox)\b", spec.test_command) and "pytest" not in named:
        tools.append("pytest")
    installer = Installer(steps, python, era, folder / "packages")
    # SWE-bench installs them last, so they win.
    overrides = installer.write("overrides.txt", "\n".join(pins(spec.pip_packages)))
    installer.install("install packages", [*tools, *own], "--overrides", overrides)
    # The sandbox cannot write bytecode, and old code must not warn in every run.
    run_limited(
        [str(python), "-m", "compileall", "-q", str(folder / "lib")],
        folder,
        without_secrets(os.environ),
        _COMPILE_SECONDS,
        check=steps.check,
    )


def _make_project(
    installer: Installer,
    built: Built,
    spec: VenvSpec,
    root: Path,
    shared: Path,
    interpreter: Path,
) -> None:
    steps = installer.steps
    venv = built.python.parent.parent
    # Set-up lines that are the whole installation call pip, which must not be the shared one.
    seed = ["--seed", *installer.limits] if spec.setup and not spec.install else []
    make: list[str | Path] = [
        uv_path(),
        "venv",
        "-q",
        "--link-mode",
        "copy",
        *seed,
        "--python",
        interpreter,
        venv,
    ]
    steps.run("make a virtual environment", make)
    site = site_packages(venv)
    base_site = site_packages(shared)
    _copy(root, built.testbed)
    needs = installer.folder / "needs"
    needs.mkdir(parents=True)
    sandbox = SetupSandbox.make(
        tree=built.testbed,
        venv=venv,
        readable=built.readable,
        variables=built.command_variables(""),
        check=steps.check,
        era="" if spec.install else limit_of_day(spec.date, installer.date),
    )
    for line in spec.setup:
        steps.run("set up the tree", ["bash", "-c", line], sandbox)
    # Not before: pip would leave out programs that the shared environment has for itself.
    lines = [f"site.addsitedir({str(path)!r})" for path in (needs, base_site)]
    (site / _BASE_LINK).write_text(f"import site; {'; '.join(lines)}\n")
    if spec.install:
        _install(installer, spec, built, sandbox, needs, base_site)
    shutil.rmtree(sandbox.home, ignore_errors=True)
    _copy_programs(needs / "bin", re.escape(bytes(interpreter)), built.python)
    # They name it by the path at which it was installed, which may lead through a link.
    installed = rb"/[^\s'\"]*/" + re.escape(shared.name.encode()) + rb"/bin/python"
    _copy_programs(shared / "bin", installed, built.python)
    shutil.copytree(built.testbed, built.template, symlinks=True)


def _left_file(built: Built) -> Path:
    """Return the file with the names of what a shared set-up left; missing for another one."""
    return built.testbed.parent / "packages" / "left.txt"


def _copy(path: Path, target: Path) -> None:
    if path.is_file():
        shutil.copy2(path, target)
    else:
        ignore = shutil.ignore_patterns(".git")
        shutil.copytree(path, target, symlinks=True, ignore=ignore)


def site_packages(venv: Path) -> Path:
    return next((venv / "lib").glob("python*/site-packages"))


def _copy_programs(folder: Path, interpreter: bytes, python: Path) -> None:
    """Let the programs in ``folder``, such as pytest, start with the project's ``python``.

    ``interpreter`` matches the path of the one with which they were installed.
    """
    for path in folder.glob("*"):
        copy = python.parent / path.name
        if path.is_symlink() or copy.exists():
            continue
        content = path.read_bytes()
        if content.startswith(b"#!"):
            copy.write_bytes(re.sub(interpreter, lambda _: bytes(python), content))
            copy.chmod(0o755)


def _install(
    installer: Installer,
    spec: VenvSpec,
    built: Built,
    sandbox: SetupSandbox,
    needs: Path,
    base_site: Path,
) -> None:
    """Install a project in place with the tools that it names, then what it ``needs``."""
    tools = installer.folder / "build"
    path = f"{tools / 'bin'}:{sandbox.variables['PATH']}"
    variables = {**sandbox.variables, "PYTHONPATH": str(tools), "PATH": path}
    sandbox = replace(sandbox, variables=variables)
    steps = installer.steps
    requires = build_requirements(sandbox.tree)
    if requires:
        installer.install("install the build tools", requires, "--target", tools)
        with suppress(BrokenEnvironmentError):
            # A backend that cannot say what else it needs may need nothing.
            script: list[str | Path] = [built.python, "-c", FURTHER_REQUIREMENTS]
            output = steps.run("find further build tools", script, sandbox)
            further = [*requires, *from_index(output.splitlines())]
            what = "install further build tools"
            installer.install(what, further, "--target", tools)
    name, _, extras = spec.install.partition("[")
    command: list[str | Path] = [built.python, "-m", "pip", "install", "-q"]
    command += ["--no-deps", "--no-build-isolation"]
    if python_version(spec.python) >= _CONFIG_SETTINGS:
        # A plain .pth file: import hooks of PEP 660 confuse tools such as pylint.
        command += ["--config-settings", "editable_mode=compat"]
    else:
        command.append("--no-use-pep517")
    command += ["-e", name]
    steps.run("install the project", command, sandbox)
    shutil.rmtree(tools, ignore_errors=True)
    site = site_packages(sandbox.venv)
    requirements = project_requirements(
        [site, *_paths_in(site)],
        extras.rstrip("]").split(","),
        python_version(spec.python),
    )
    if requirements:
        copies = copy_metadata(base_site, needs)
        what = "install what the project needs"
        installer.install(what, requirements, "--target", needs)
        for copy in copies:
            if copy.exists():
                shutil.rmtree(copy.parent)


def _paths_in(site: Path) -> list[Path]:
    """Return the folders that the project's installation puts on the path."""
    paths = []
    for file in site.glob("*.pth"):
        if file.name == _BASE_LINK or not file.is_file():
            continue
        for line in file.read_text("utf-8", "replace").splitlines():
            path = Path(line.strip())
            if path.is_absolute() and path.is_dir():
                paths.append(path)
    return paths
