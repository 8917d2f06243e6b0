"""Build images of instances without a registry: a debootstrap base, pyenv's interpreters, mirrors.

Neither ``docker build`` nor a container needs a network. Packages are installed on this machine, in
a bubblewrap view of the base with the instance's folders at their final paths; the image is the
base and one layer of those folders. Paths and steps are those of swebench's own image builder
(``/opt/miniconda3/envs/testbed``, ``/testbed``), with pyenv's interpreter in place of conda's.
"""

from __future__ import annotations

import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.workspace import Workspace
from bench.instances.instance import Instance, Spec
from bench.instances.project import wanted_packages
from bench.repos.mirrors import Mirrors
from core.errors import UserError
from core.git import git
from environments.docker.engine import engine_errors
from environments.docker.images import holds
from environments.local.venvs import BuildSteps

_TESTBED = "testbed"
_PREFIX = "opt/miniconda3/envs/testbed"
_ACTIVATE = f"""\
conda() {{
    export CONDA_DEFAULT_ENV="$2" CONDA_PREFIX=/{_PREFIX}
    export PATH="/{_PREFIX}/bin:$PATH"
}}
"""
_PACKAGES = (
    "ca-certificates,git,locales,procps,tzdata,libbz2-1.0,libexpat1,libffi8,liblzma5,libncursesw6,"
    "libreadline8,libsqlite3-0,libssl3,libuuid1,zlib1g"
)
_LEFT_OUT = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man")
# pip before 25.3 still runs an old setup.py without build isolation, and setuptools 81 and later
# lack pkg_resources. The published images are older than both.
TOOLS = ("pip<25.3", "setuptools<81", "wheel")
_UPLOAD = "git -c uploadpack.allowAnySHA1InWant=true -c safe.directory=* upload-pack"


@dataclass(frozen=True)
class Base:
    """The base of all images: a small Debian of this machine's release.

    Attributes:
        root: its files, for the steps that install packages.
        mirror: URL of the Debian mirror.
        image: its name in the engine.
    """

    root: Path
    mirror: str
    image: str = "swe-retry-harness/base:latest"

    def make(self, client: Any, log: Path) -> None:  # noqa: ANN401 - the SDK has no types
        """Make the folder and the image if they do not exist; needs root."""
        done = self.root.with_name(f"{self.root.name}.complete")
        if not done.exists():
            shutil.rmtree(self.root, ignore_errors=True)
            self._bootstrap(log)
            done.touch()
        if not holds(client, self.image):
            _import(client, self.root, self.image)

    def _bootstrap(self, log: Path) -> None:
        self.root.parent.mkdir(parents=True, exist_ok=True)
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        include = f"--include={_PACKAGES}"
        options = ["--variant=minbase", include]
        argv = ["debootstrap", *options, release, str(self.root), self.mirror]
        _steps("the base image", log).run("make", argv)
        for name in _LEFT_OUT:
            shutil.rmtree(self.root / name, ignore_errors=True)
        for name in (_PREFIX, "opt/miniconda3/bin", _TESTBED):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / "opt/miniconda3/bin/activate").write_text(_ACTIVATE)
        (self.root / "etc/ld.so.conf.d/testbed.conf").write_text(f"/{_PREFIX}/lib\n")
        (self.root / "etc/resolv.conf").write_text("")


def _import(client: Any, root: Path, image: str) -> None:  # noqa: ANN401
    name, _, tag = image.rpartition(":")
    with tempfile.NamedTemporaryFile(dir=root.parent, suffix=".tar") as packed:
        _tar(root, ["."], Path(packed.name))
        with engine_errors():
            client.api.import_image_from_file(packed.name, repository=name, tag=tag)


def _tar(folder: Path, names: Sequence[str], target: Path) -> None:
    options = ["--numeric-owner", "--exclude=./dev/*", "-C", str(folder)]
    argv = ["tar", *options, "-cf", str(target), *names]
    subprocess.run(argv, check=True)


@dataclass(frozen=True)
class Builder:
    """Builds images of instances.

    Attributes:
        base: the base of all images.
        pyenv: folder of interpreters, as ``3.9.18/bin/python``.
        work: folder for unfinished layers, pip's cache and logs.
        tools: requirements that are installed before an instance's packages.
    """

    client: Any
    base: Base
    mirrors: Mirrors
    pyenv: Path
    work: Path
    tools: Sequence[str] = TOOLS

    def build(self, instance: Instance, spec: Spec, image: str) -> None:
        """Build ``image`` for ``instance``.

        Raises:
            UserError: an interpreter or a mirror is missing.
            UnavailableError: a step failed; contains the command and the end of its output.
            InfrastructureError: the package index, the engine or the disk failed.
        """
        mirror = self.mirrors.find(instance.repo)
        if mirror is None:
            raise UserError(f"no mirror of {instance.repo} in {self.mirrors.root}; clone one there")
        layer = self.work / "layers" / instance.instance_id
        shutil.rmtree(layer, ignore_errors=True)
        (layer / "etc").mkdir(parents=True)
        try:
            _lay_interpreter(interpreter(self.pyenv, spec.python), layer / _PREFIX)
            _lay_repository(mirror, instance.base_commit, layer / _TESTBED)
            self._install(instance, spec, layer)
            _lay_changes(layer / _TESTBED)
            self._image(layer, image)
        finally:
            shutil.rmtree(layer, ignore_errors=True)

    def _install(self, instance: Instance, spec: Spec, layer: Path) -> None:
        packages = wanted_packages(instance.repo, spec, Workspace(layer / _TESTBED).read)
        pip = "python -m pip install -q --root-user-action=ignore"
        lines = [
            "ldconfig -C /mnt/ld.so.cache",
            "python -m ensurepip",
            *(f"{pip} {shlex.join(names)}" for names in (self.tools, packages) if names),
            *([f"{pip} {shlex.join(spec.pip_packages)}"] if spec.pip_packages else []),
            # The base contains the system packages.
            *(line for line in spec.pre_install if "apt-get" not in line),
            *([spec.install] if spec.install else []),
        ]
        log = self.work / "logs" / f"{instance.instance_id}.log"
        log.unlink(missing_ok=True)
        steps = _steps(f"{instance.repo} {instance.version}", log)
        for line in lines:
            steps.run(f"run `{line}` for the image", self._inside(layer, line))

    def _inside(self, layer: Path, line: str) -> list[str | Path]:
        """Return a command that runs ``line`` with network in the base and the layer's folders.

        Variables of pip and of certificates are inherited.
        """
        cache = self.work / "pip-cache"
        cache.mkdir(parents=True, exist_ok=True)
        seen: list[str | Path] = []
        for path in ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs", "/etc/pip.conf"):
            seen += ["--ro-bind-try", path, path] if (self.base.root / path[1:]).exists() else []
        script = f"source /opt/miniconda3/bin/activate; conda activate testbed; {line}"
        return [
            "bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc",
            "--ro-bind", self.base.root, "/", "--dev", "/dev", "--proc", "/proc",
            "--tmpfs", "/tmp", "--tmpfs", "/root", "--bind", cache, "/root/.cache/pip",
            "--bind", layer / _PREFIX, f"/{_PREFIX}", "--bind", layer / _TESTBED, f"/{_TESTBED}",
            "--bind", layer / "etc", "/mnt", *seen, "--chdir", f"/{_TESTBED}",
            "--setenv", "HOME", "/root", "--setenv", "PATH", "/usr/sbin:/usr/bin:/sbin:/bin",
            "--setenv", "LD_LIBRARY_PATH", f"/{_PREFIX}/lib", "--setenv", "LC_ALL", "C.UTF-8",
            # The repository has its tags.
            "--unsetenv", "SETUPTOOLS_SCM_PRETEND_VERSION",
            "bash", "-ec", script,
        ]  # fmt: skip

    def _image(self, layer: Path, image: str) -> None:
        with tempfile.TemporaryDirectory(dir=self.work) as scratch:
            _tar(layer, ["./opt", "./etc", f"./{_TESTBED}"], Path(scratch) / "layer.tar")
            lines = [f"FROM {self.base.image}", "ADD layer.tar /", f"WORKDIR /{_TESTBED}"]
            (Path(scratch) / "Dockerfile").write_text("\n".join(lines) + "\n")
            with engine_errors():
                self.client.images.build(path=scratch, tag=image, rm=True, forcerm=True)


def _steps(project: str, log: Path) -> BuildSteps:
    return BuildSteps(project, log, check=lambda: None)


def interpreter(pyenv: Path, version: str) -> Path:
    """Return the folder of the newest interpreter of ``version`` (``3.9``) below ``pyenv``."""
    found = [p for p in pyenv.glob(f"{version}.*") if (p / "bin" / "python").exists()]
    if not found:
        raise UserError(f"no Python {version} in {pyenv}; run `pyenv install {version}`")
    return max(found, key=lambda path: int(path.name.rpartition(".")[2]))


def _lay_interpreter(source: Path, target: Path) -> None:
    """Copy an interpreter without packages; it finds its prefix by its own path."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        kept_out = {"test", "__pycache__", "share"} & {*names}
        if Path(folder).name == "site-packages":
            return {*names}
        if Path(folder) == source / "bin":  # scripts that name the old path
            return {name for name in names if not name.startswith("python") or "config" in name}
        return kept_out | {name for name in names if name.endswith(".a")}

    shutil.copytree(source, target, symlinks=True, ignore=left_out)


def _lay_repository(mirror: Path, commit: str, folder: Path) -> None:
    """Make a repository with only the history of ``commit`` and its tags."""
    folder.mkdir(parents=True)
    git("init", "--quiet", "--initial-branch=main", cwd=folder)
    named = "--format=%(refname)"
    tags = git("for-each-ref", named, "--merged", commit, "refs/tags", cwd=mirror).decode().split()
    wanted = [commit, *(f"{tag}:{tag}" for tag in tags)]
    git("fetch", "--quiet", "--no-tags", "--upload-pack", _UPLOAD, mirror, *wanted, cwd=folder)
    git("reset", "--quiet", "--hard", commit, cwd=folder)


def _lay_changes(folder: Path) -> None:
    """Commit the changes of set-up lines, so that later differences are the candidate's."""
    git("commit", "--quiet", "--allow-empty", "--all", "--message", "SWE-bench", cwd=folder)
