"""From an instance to an environment's project, by the rules of SWE-bench's image builder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from swe_retry.agent.workspace import Workspace
from swe_retry.core.data import read_yaml
from swe_retry.core.git import git, git_result
from swe_retry.core.untrusted import DamagedError, yaml_of
from swe_retry.environments.base import (
    ANY_PYTHON,
    BrokenEnvironmentError,
    ImageSpec,
    LocalServer,
    Project,
    UnavailableError,
    VenvSpec,
)
from swe_retry.frameworks.shell import Read
from swe_retry.instances.instance import Commands, ImageLayout, Instance, Spec
from swe_retry.repositories.checkout import Checkout
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.repositories.snapshot import Snapshot, get_snapshot

_FILES: dict[str, dict[str, list[str]]] = read_yaml(__file__, "requirements.yaml")
_SERVERS: dict[str, dict[str, Any]] = read_yaml(__file__, "servers.yaml")
_CONDA_FILE = "environment.yml"
# Later commits hold the fix. The last tag stays, because packages take their version from it.
# Folders named .git below are submodules, whose history lay in the repository's.
_ONE_COMMIT = """g="git -c safe.directory=* -c user.name=base -c user.email=base@localhost"
list=/harness/tracked
tag=$($g describe --tags --abbrev=0 2>/dev/null)
$g ls-files -z >$list 2>/dev/null
find . -name .git -prune -exec rm -rf {} + || exit 1
if command -v git >/dev/null; then
    git init -q . && ADD && $g commit -q --no-verify --allow-empty -m base || exit 1
    [ -z "$tag" ] || $g tag "$tag"
    chown -R --reference=. .git
fi
rm -f $list"""
# What the image built is not tracked, and may be large.
_ADD_TRACKED = "{ $g update-index --add --remove -z --stdin <$list || $g add -A; }"
_ADD_ALL = "$g add -A"
# Signs that pip has too; conda pins with a single one.
_COMPARISON = re.compile("[=><!~]=")
_NOT_ON_PYPI = frozenset(
    {"python", "pip", "gcc", "c-compiler", "cxx-compiler", "compilers"}
)


def hide_image_names(text: str, instances: Iterable[Instance]) -> str:
    """Return a message as a log may keep it: names of images may show hidden data."""
    for instance in instances:
        if instance.image_label:
            text = text.replace(instance.image, instance.shown_image)
    return text


def snapshot_of(instance: Instance, mirrors: Mirrors, snapshots: Path) -> Snapshot:
    """Return the commit that attempts at ``instance`` start from; raises as ``Mirrors.get``."""
    mirror = mirrors.get(instance.repo, instance.base_commit)
    return get_snapshot(
        snapshots,
        mirror,
        instance.repo,
        instance.base_commit,
        instance.bug,
    )


def project_of(
    instance: Instance,
    base: Checkout,
    mirrors: Mirrors | None = None,
) -> Project:
    """Return ``instance``, whose base commit is checked out in ``base``, as a project.

    Without ``mirrors`` the files of packages are those of the base commit.
    """
    return Project(
        key=instance.tested_as,
        group=instance.repo,
        version=instance.version,
        root=base.root,
        revision=base.base_commit,
        venv=_venv(instance, base, mirrors),
        image=_image(instance),
    )


NO_SPEC = "the row has no spec to build an environment from"
_NO_TEST = "no test command is known; give --test-cmd"


def _image(instance: Instance) -> ImageSpec | UnavailableError:
    if instance.commands is not None:
        return _image_of(instance.commands, instance.version)
    setup = instance.test_setup
    if setup is None:
        return UnavailableError(
            "the row has no test command that is known without hidden data"
        )
    layout = instance.layout
    return ImageSpec(
        name=instance.image,
        setup=(*layout.activation, *setup.setup),
        test_command=setup.command,
        folder=layout.folder,
        user=layout.user,
        keeps_home=layout.keeps_home,
        fresh_tree=layout.fresh_tree,
        cleaning=tuple(cleaning_lines(layout)),
        public_name=instance.shown_image,
    )


def _image_of(commands: Commands, version: str) -> ImageSpec | UnavailableError:
    if not commands.test:
        return UnavailableError(_NO_TEST)
    if not commands.image:
        return UnavailableError("no image is known; give --set project.image=NAME")
    lines = list(commands.setup)
    if version:
        # There are no tags in the tree to take a version from.
        variable = f"SETUPTOOLS_SCM_PRETEND_VERSION={shlex.quote(version)}"
        lines.insert(0, f"export {variable}")
    return ImageSpec(
        name=commands.image,
        setup=(),
        test_command=commands.test,
        keeps_home=True,
        installation=tuple(lines),
    )


def cleaning_lines(layout: ImageLayout) -> Iterator[str]:
    """Yield shell lines that remove hidden data from an image before anything runs in it."""
    if layout.removed:
        yield f"rm -rf -- {shlex.join(layout.removed)} || exit 1"
    if layout.one_commit:
        add = _ADD_ALL if layout.fresh_tree else _ADD_TRACKED
        yield _ONE_COMMIT.replace("ADD", add, 1)


def _venv(
    instance: Instance,
    base: Checkout,
    mirrors: Mirrors | None,
) -> VenvSpec | UnavailableError:
    if instance.commands is not None:
        # That of a mined row; an issue of today gets packages of today.
        date = ""
        if instance.created_at:
            date = _date_of("HEAD", base.root)
        return _venv_of(instance.commands, date)
    spec = instance.spec
    if spec is None or not spec.test_cmd:
        return UnavailableError(NO_SPEC)
    install = ""
    if spec.install:
        # What is installed in place may have extras: ``pip install -e .[dev]``.
        extras = re.search(r"\.(\[[\w,-]+\])", spec.install)
        install = f".{extras[1]}" if extras else "."
    read = Workspace(base.root).read
    date = instance.created_at or _date_of("HEAD", base.root)
    if mirrors and instance.setup_commit and spec.packages.endswith((".txt", ".yml")):
        mirror = mirrors.get(instance.repo, instance.setup_commit)
        read = partial(_read_blob, mirror, instance.setup_commit)
        date = max(date, _date_of(instance.setup_commit, mirror))
    try:
        packages = required_packages(instance.repo, spec, read)
    except BrokenEnvironmentError as error:
        return error
    # Only edits of the tree; the others install system packages.
    setup = [line for line in spec.pre_install if line.startswith("sed ")]
    server = None
    if instance.repo in _SERVERS:
        server = LocalServer(**_SERVERS[instance.repo])
    return VenvSpec(
        python=spec.python,
        packages=tuple(packages),
        from_conda=spec.packages == _CONDA_FILE,
        pip_packages=spec.pip_packages,
        setup=tuple(setup),
        install=install,
        test_command=local_command(spec),
        source=asdict(spec),
        date=date[:10],
        server=server,
    )


def _date_of(commit: str, repository: Path) -> str:
    output = git("log", "-1", "--format=%cs", commit, cwd=repository)
    return output.decode().strip()


def _read_blob(repository: Path, commit: str, path: str) -> str | None:
    blob = git_result("cat-file", "blob", f"{commit}:{path}", cwd=repository)
    if blob.returncode:
        return None
    return blob.stdout.decode("utf-8", "replace")


def _venv_of(commands: Commands, date: str) -> VenvSpec | UnavailableError:
    if not commands.test:
        return UnavailableError(_NO_TEST)
    return VenvSpec(
        python=commands.python or ANY_PYTHON,
        setup=commands.setup,
        test_command=local_command(Spec(test_cmd=commands.test)),
        # Whatever the commands are, the dependencies that are shared are the same.
        source={
            "python": commands.python,
            "pytest": bool(re.search(r"\b(pytest|tox)\b", commands.test)),
        },
        date=date,
    )


def required_packages(repo: str, spec: Spec, read: Read) -> list[str]:
    """Return the requirements of the spec's ``packages``.

    ``read`` returns a file of the base commit. Addresses and the project itself, which pip cannot
    install from an index, are left out, as SWE-bench does.

    Raises:
        BrokenEnvironmentError: a file that the spec names is missing or damaged.
    """
    if spec.packages not in _FILES:
        return shlex.split(spec.packages)
    names = _FILES[spec.packages].get(repo, [spec.packages])
    for name in names:
        text = read(name)
        if text is None:
            continue
        if spec.packages == _CONDA_FILE:
            return list(_conda_requirements(name, text))
        return list(_requirements(name, read, depth=2))
    missing = " and ".join(names)
    raise BrokenEnvironmentError(
        f"the spec takes its packages from {missing}, which the base commit, or the row's "
        "environment_setup_commit, does not have"
    )


def _requirements(name: str, read: Read, depth: int) -> Iterator[str]:
    folder = name.rpartition("/")[0]
    text = read(name) or ""
    for raw_line in text.splitlines():
        line = raw_line.split(" #")[0].strip()
        if line.startswith(("-r ", "--requirement ")) and depth:
            other = line.split(maxsplit=1)[1]
            if folder:
                other = f"{folder}/{other}"
            yield from _requirements(other, read, depth - 1)
        elif line.startswith("types-pkg_resources") and "://" not in line:
            yield "types-setuptools"
        elif line and not line.startswith(("-", "#", ".")) and "://" not in line:
            yield line


def _conda_requirements(name: str, text: str) -> Iterator[str]:
    try:
        entries = (yaml_of(text) or {}).get("dependencies") or []
    except (DamagedError, AttributeError) as error:
        raise BrokenEnvironmentError(f"{name} has no list of packages") from error
    for entry in entries:
        if isinstance(entry, dict):
            for line in map(str, entry.get("pip") or []):
                if "://" not in line:
                    yield line
            continue
        requirement = str(entry)
        # The name ends at the sign before its version.
        name = re.split("[=<>]", requirement)[0]
        if name.strip() in _NOT_ON_PYPI:
            continue
        if not _COMPARISON.search(requirement):
            requirement = requirement.replace("=", "==", 1)
        yield requirement


def local_command(spec: Spec) -> str:
    """Return the spec's test command for a virtual environment.

    A console script runs in the environment that it was installed in, and tox creates its own, in
    which nothing is installed.
    """
    command = spec.test_cmd
    if command.startswith("tox "):
        return "python -m pytest -rA"
    if command.split()[:1] == ["pytest"]:
        return f"python -m {command}"
    return command
