"""Images and rows of instances, for evaluations that are measured against each other.

    python -m benchmarks.instance_images --dataset lite.jsonl --mirrors MIRRORS --out DIR ID...

For machines whose engine reaches no registry. Needs root, debootstrap, bubblewrap, pyenv's
interpreters and a package index. Writes the rows with the columns of swebench 5 to
``DIR/instances.jsonl``: ``eval_script`` is made from ``spec``, the test lists from runs with and
without the gold patch. With ``--tag TAG`` it writes to ``instances-TAG.jsonl`` and copies known
test lists: this is for the same instance with another installer, as ``--pip 'pip>=25.3' --tag
recent-pip``, whose ``pip install .`` fails without network.
"""

from __future__ import annotations

import json
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.evaluation_rows import GoldRuns, evaluation_columns
from swe_retry.agent.workspace import Workspace
from swe_retry.core.atomic import write_text_atomic
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.git import git
from swe_retry.core.jsontypes import JsonObject
from swe_retry.environments.base import UnavailableError
from swe_retry.environments.docker.engine import connect, engine_errors
from swe_retry.environments.docker.images import holds
from swe_retry.environments.local.buildsteps import BuildSteps
from swe_retry.instances.instance import Instance, Spec, derived_image
from swe_retry.instances.split import split_row
from swe_retry.launch.program import Program
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.testing.project import required_packages

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
_NOT_NEEDED = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man")
_MACHINE_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/ssl/certs", "/etc/pip.conf")
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
        marker = self.root.with_name(f"{self.root.name}.complete")
        if not marker.exists():
            shutil.rmtree(self.root, ignore_errors=True)
            self._bootstrap(log)
            marker.touch()
        if not holds(client, self.image):
            _import(client, self.root, self.image)

    def _bootstrap(self, log: Path) -> None:
        self.root.parent.mkdir(parents=True, exist_ok=True)
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        include = f"--include={_PACKAGES}"
        options = ["--variant=minbase", include]
        argv = ["debootstrap", *options, release, str(self.root), self.mirror]
        _steps("the base image", log).run("make", argv)
        for name in _NOT_NEEDED:
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
            raise UserError(
                f"no mirror of {instance.repo} in {self.mirrors.root}; clone one there"
            )
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
        packages = required_packages(
            instance.repo, spec, Workspace(layer / _TESTBED).read
        )
        lines = ["ldconfig -C /mnt/ld.so.cache", "python -m ensurepip"]
        for names in (self.tools, packages, spec.pip_packages):
            if names:
                pip = "python -m pip install -q --root-user-action=ignore"
                lines.append(f"{pip} {shlex.join(names)}")
        # The base contains the system packages.
        lines += [line for line in spec.pre_install if "apt-get" not in line]
        if spec.install:
            lines.append(spec.install)
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
        folders = {
            "/root/.cache/pip": cache,
            f"/{_PREFIX}": layer / _PREFIX,
            f"/{_TESTBED}": layer / _TESTBED,
            "/mnt": layer / "etc",
        }
        binds: list[str | Path] = []
        for target, folder in folders.items():
            binds += ["--bind", folder, target]
        for path in _MACHINE_FILES:
            if (self.base.root / path[1:]).exists():
                binds += ["--ro-bind-try", path, path]
        variables = {
            "HOME": "/root",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LD_LIBRARY_PATH": f"/{_PREFIX}/lib",
            "LC_ALL": "C.UTF-8",
        }
        for name, value in variables.items():
            binds += ["--setenv", name, value]
        script = f"source /opt/miniconda3/bin/activate; conda activate testbed; {line}"
        return [
            *("bwrap", "--die-with-parent", "--unshare-pid", "--unshare-ipc"),
            *("--ro-bind", self.base.root, "/", "--dev", "/dev", "--proc", "/proc"),
            *("--tmpfs", "/tmp", "--tmpfs", "/root"),
            *binds,
            # The repository has its tags.
            *("--unsetenv", "SETUPTOOLS_SCM_PRETEND_VERSION"),
            *("--chdir", f"/{_TESTBED}", "bash", "-ec", script),
        ]

    def _image(self, layer: Path, image: str) -> None:
        with tempfile.TemporaryDirectory(dir=self.work) as scratch:
            context = Path(scratch)
            _tar(layer, ["./opt", "./etc", f"./{_TESTBED}"], context / "layer.tar")
            dockerfile = (
                f"FROM {self.base.image}\nADD layer.tar /\nWORKDIR /{_TESTBED}\n"
            )
            (context / "Dockerfile").write_text(dockerfile)
            with engine_errors():
                self.client.images.build(
                    path=scratch,
                    tag=image,
                    rm=True,
                    forcerm=True,
                )


def _steps(project: str, log: Path) -> BuildSteps:
    return BuildSteps(project, log, check=lambda: None)


def interpreter(pyenv: Path, version: str) -> Path:
    """Return the folder of the newest interpreter of ``version`` (``3.9``) below ``pyenv``."""
    programs = list(pyenv.glob(f"{version}.*/bin/python"))
    if not programs:
        raise UserError(
            f"no Python {version} in {pyenv}; run `pyenv install {version}`"
        )
    folders = [program.parents[1] for program in programs]
    return max(folders, key=_last_number)


def _last_number(folder: Path) -> int:
    _, _, number = folder.name.rpartition(".")
    return int(number)


def _lay_interpreter(source: Path, target: Path) -> None:
    """Copy an interpreter without packages; it finds its prefix by its own path."""

    def excluded_names(folder: str, names: list[str]) -> set[str]:
        if Path(folder).name == "site-packages":
            return set(names)
        if Path(folder) == source / "bin":
            programs = {name for name in names if name.startswith("python")}
            scripts = {name for name in programs if "config" in name}
            # The others name the old path.
            return set(names) - (programs - scripts)
        libraries = {name for name in names if name.endswith(".a")}
        return libraries | {"test", "__pycache__", "share"}.intersection(names)

    shutil.copytree(
        source,
        target,
        symlinks=True,
        ignore=excluded_names,
    )


def _lay_repository(mirror: Path, commit: str, folder: Path) -> None:
    """Make a repository with only the history of ``commit`` and its tags."""
    folder.mkdir(parents=True)
    git("init", "--quiet", "--initial-branch=main", cwd=folder)
    merged = ("--format=%(refname)", "--merged", commit, "refs/tags")
    listing = git("for-each-ref", *merged, cwd=mirror)
    tags = listing.decode().split()
    refs = [commit, *(f"{tag}:{tag}" for tag in tags)]
    options = ("--quiet", "--no-tags", "--upload-pack", _UPLOAD)
    git("fetch", *options, mirror, *refs, cwd=folder)
    git("reset", "--quiet", "--hard", commit, cwd=folder)


def _lay_changes(folder: Path) -> None:
    """Commit the changes of set-up lines, so that later differences are the candidate's."""
    options = ("--quiet", "--allow-empty", "--all", "--message", "SWE-bench")
    git("commit", *options, cwd=folder)


ROWS = "instances.jsonl"
_LATEST = "latest"
_LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS")


def main(
    ids: Annotated[list[str], typer.Argument(help="Ids of instances.")],
    dataset: Annotated[
        Path, typer.Option(help="Rows with `spec`, one JSON object per line.")
    ],
    mirrors: Annotated[Path, typer.Option(help="Folder of bare mirrors.")],
    out: Annotated[Path, typer.Option(help="Folder for rows, logs and cached files.")],
    pyenv: Annotated[Path, typer.Option(help="Folder of interpreters.")] = Path(
        "~/.pyenv/versions"
    ),
    debootstrap_mirror: Annotated[
        str, typer.Option(help="URL of a Debian mirror.")
    ] = "http://deb.debian.org/debian",
    pip: Annotated[
        str, typer.Option(help="Requirement for pip in the images.")
    ] = TOOLS[0],
    tag: Annotated[str, typer.Option(help="Tag of the images.")] = _LATEST,
    rebuild: Annotated[bool, typer.Option(help="Build existing images again.")] = False,
    timeout: Annotated[
        int, typer.Option(help="Time limit of one test run in seconds.")
    ] = 1800,
) -> None:
    """Build the images of IDS and write their rows to OUT/instances.jsonl; exit 1 if one fails."""
    client = connect()
    if client is None:
        raise UserError("no Docker engine answers: start one")
    out = out.expanduser().resolve()
    rows = read_rows(dataset)
    base = Base(out / "base" / "rootfs", debootstrap_mirror)
    base.make(client, out / "logs" / "base.log")
    tools = [pip, *TOOLS[1:]]
    builder = Builder(
        client, base, Mirrors(mirrors.expanduser()), pyenv.expanduser(), out, tools
    )
    runs = GoldRuns(client, timeout, out / "gold-runs" / tag)
    for name in ids:
        if name not in rows:
            raise UserError(f"{dataset} has no row {name}; give ids that it has")
    earlier: Mapping[str, JsonObject] = {}
    if tag != _LATEST:
        earlier = _rows_so_far(out / ROWS)
    exit_code = 0
    for name in ids:
        try:
            row = _row_with_image(rows[name], builder, tag, rebuild=rebuild)
            row |= _test_lists(row, runs, earlier)
        except (UnavailableError, InfrastructureError) as error:
            print(f"{name}: {error}", flush=True)
            exit_code = 1
            continue
        _add_row(out / rows_name(tag), row)
        lists = f"{len(row['FAIL_TO_PASS'])} to fix, {len(row['PASS_TO_PASS'])} to keep"
        print(f"{name}: {row['image']}, {lists}", flush=True)
    sys.exit(exit_code)


def _row_with_image(
    row: JsonObject, builder: Builder, tag: str, *, rebuild: bool
) -> JsonObject:
    """Build the image of ``row`` and return the row with all columns but the test lists."""
    instance, _ = split_row(row)
    if instance.spec is None:
        raise UserError(
            f"instance {instance.instance_id}: the row has no `spec`; add it"
        )
    image = derived_image(instance.instance_id).removesuffix(_LATEST) + tag
    if rebuild or not holds(builder.client, image):
        builder.build(instance, instance.spec, image)
    row = dict(row)
    if isinstance(row["spec"], str):
        row["spec"] = json.loads(row["spec"])
    return {**row, **evaluation_columns(row, image)}


def _test_lists(
    row: JsonObject, runs: GoldRuns, earlier: Mapping[str, JsonObject]
) -> JsonObject:
    old = earlier.get(row["instance_id"])
    if old:
        return {key: old[key] for key in _LISTS}
    lists = runs.test_lists(row)
    return {
        "FAIL_TO_PASS": list(lists.fail_to_pass),
        "PASS_TO_PASS": list(lists.pass_to_pass),
    }


def rows_name(tag: str = _LATEST) -> str:
    """Return the name of the file with the rows of images with ``tag``."""
    if tag == _LATEST:
        return ROWS
    return f"instances-{tag}.jsonl"


def read_rows(path: Path) -> dict[str, JsonObject]:
    """Return the rows of a JSON lines file by id.

    Raises:
        UserError: it cannot be read.
    """
    try:
        lines = path.expanduser().read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        return {row["instance_id"]: row for row in rows}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(
            f"{path} cannot be read as rows, one JSON object a line: {error}"
        ) from None


def _rows_so_far(path: Path) -> dict[str, JsonObject]:
    if path.exists():
        return read_rows(path)
    return {}


def _add_row(path: Path, row: JsonObject) -> None:
    """Add ``row`` to the file, or replace an older row."""
    rows = {**_rows_so_far(path), row["instance_id"]: row}
    text = "".join(f"{json.dumps(each)}\n" for each in rows.values())
    write_text_atomic(path, text)


if __name__ == "__main__":
    sys.exit(Program(module="benchmarks.instance_images", default=main).main())
