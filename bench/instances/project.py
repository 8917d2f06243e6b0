"""From an instance to an environment's project, by the rules of SWE-bench's image builder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict

from agent.workspace import Workspace
from bench.instances.instance import ImagePlace, Instance, Spec
from bench.instances.shape import Commands
from bench.regression.runners.shell import Read
from bench.repos.checkout import Checkout, Snapshot, Snapshots
from bench.repos.mirrors import Mirrors
from core.parsing.untrusted import DamagedError, yaml_of
from environments.base import ANY_PYTHON, ImageSpec, Project, UnavailableError, VenvSpec

# First match wins; from swebench/harness/constants/python.py before version 5.
_REQUIREMENTS = {
    "django/django": ("tests/requirements/py3.txt",),
    "matplotlib/matplotlib": (
        "requirements/dev/dev-requirements.txt",
        "requirements/testing/travis_all.txt",
    ),
    "pallets/flask": ("requirements/dev.txt",),
    "pylint-dev/pylint": ("requirements_test.txt",),
    "pyvista/pyvista": ("requirements_test.txt", "requirements.txt"),
    "sqlfluff/sqlfluff": ("requirements_dev.txt",),
    "sympy/sympy": ("requirements-dev.txt", "requirements-test.txt"),
}
_CONDA_FILES = {
    "matplotlib/matplotlib": ("environment.yml",),
    "pydata/xarray": ("ci/requirements/environment.yml", "environment.yml"),
}
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
_NOT_ON_PYPI = frozenset(
    {"python", "pip", "gcc", "c-compiler", "cxx-compiler", "compilers"}
)


def shown_names(text: str, instances: Iterable[Instance]) -> str:
    """Return a message as a log may keep it: names of images may show hidden data."""
    for instance in instances:
        if instance.image_label:
            text = text.replace(instance.image, instance.shown_image)
    return text


def snapshot_of(instance: Instance, mirrors: Mirrors, snapshots: Snapshots) -> Snapshot:
    """Return the commit that attempts at ``instance`` start from; raises as ``Mirrors.get``."""
    mirror = mirrors.get(instance.repo, instance.base_commit)
    return snapshots.get(mirror, instance.repo, instance.base_commit, instance.bug)


def project_of(instance: Instance, base: Checkout) -> Project:
    """Return ``instance``, whose base commit is checked out in ``base``, as a project."""
    return Project(
        key=instance.instance_id,
        group=instance.repo,
        version=instance.version,
        root=base.root,
        revision=base.base_commit,
        venv=_venv(instance, Workspace(base.root).read),
        image=_image(instance),
    )


_NO_TEST = "no test command is known; give --test-cmd"


def _image(instance: Instance) -> ImageSpec | UnavailableError:
    setup, own = instance.test_setup, instance.commands
    if own is not None:
        if not (own.test and own.image):
            return UnavailableError(
                "no image is known; give --set project.image=NAME"
                if own.test
                else _NO_TEST
            )
        # There are no tags in the tree to take a version from.
        version = (
            f"export SETUPTOOLS_SCM_PRETEND_VERSION={shlex.quote(instance.version)}"
        )
        lines = (*([version] if instance.version else []), *own.setup)
        return ImageSpec(own.image, (), own.test, keeps_home=True, installation=lines)
    if setup is None:
        return UnavailableError(
            "the row has no test command that is known without hidden data"
        )
    place = instance.place
    return ImageSpec(
        name=instance.image,
        setup=(*place.activation, *setup.setup),
        test_command=setup.command,
        folder=place.folder,
        user=place.user,
        keeps_home=place.keeps_home,
        fresh_tree=place.fresh_tree,
        cleaning=tuple(cleaning_lines(place)),
        public_name=instance.shown_image,
    )


def cleaning_lines(place: ImagePlace) -> Iterator[str]:
    """Yield shell lines that remove hidden data from an image before anything runs in it."""
    if place.removed:
        yield f"rm -rf -- {shlex.join(place.removed)} || exit 1"
    if place.one_commit:
        yield _ONE_COMMIT.replace(
            "ADD", _ADD_ALL if place.fresh_tree else _ADD_TRACKED, 1
        )


def _venv(instance: Instance, read: Read) -> VenvSpec | UnavailableError:
    if instance.commands is not None:
        return _venv_of(instance.commands)
    spec = instance.spec
    if spec is None or not spec.test_cmd:
        return UnavailableError("the row has no spec to build an environment from")
    extras = re.search(r"\.(\[[\w,-]+\])", spec.install)
    target = f".{extras[1]}" if extras else "."
    return VenvSpec(
        python=spec.python,
        packages=tuple(wanted_packages(instance.repo, spec, read)),
        pip_packages=spec.pip_packages,
        # Only edits of the tree; the others install system packages.
        setup=tuple(line for line in spec.pre_install if line.startswith("sed ")),
        install=target if spec.install else "",
        test_command=local_command(spec),
        source=asdict(spec),
    )


def _venv_of(own: Commands) -> VenvSpec | UnavailableError:
    if not own.test:
        return UnavailableError(_NO_TEST)
    return VenvSpec(
        python=own.python or ANY_PYTHON,
        setup=own.setup,
        test_command=local_command(Spec(test_cmd=own.test)),
        # Whatever the commands are, the dependencies that are shared are the same.
        source={
            "python": own.python,
            "pytest": bool(re.search(r"\b(pytest|tox)\b", own.test)),
        },
    )


def wanted_packages(repo: str, spec: Spec, read: Read) -> list[str]:
    """Return the requirements of the spec's ``packages``.

    ``read`` returns a file of the base commit. Addresses and the project itself, which pip cannot
    install from an index, are left out, as SWE-bench does.
    """
    if spec.packages == "requirements.txt":
        names = _REQUIREMENTS.get(repo, ("requirements.txt",))
        found = next((name for name in names if read(name) is not None), None)
        return list(_requirements(found, read, depth=2)) if found else []
    if spec.packages == "environment.yml":
        names = _CONDA_FILES.get(repo, ("environment.yml",))
        text = next((text for text in map(read, names) if text is not None), "")
        return list(_conda_requirements(text))
    return shlex.split(spec.packages)


def _requirements(name: str, read: Read, depth: int) -> Iterator[str]:
    folder = name.rpartition("/")[0]
    for raw in (read(name) or "").splitlines():
        line = raw.split(" #")[0].strip()
        if line.startswith(("-r ", "--requirement ")) and depth:
            other = line.split(maxsplit=1)[1]
            yield from _requirements(
                f"{folder}/{other}" if folder else other, read, depth - 1
            )
        elif line and not line.startswith(("-", "#", ".")) and "://" not in line:
            yield "types-setuptools" if line.startswith("types-pkg_resources") else line


def _conda_requirements(text: str) -> Iterator[str]:
    try:
        entries = (yaml_of(text) or {}).get("dependencies") or []
    except (DamagedError, AttributeError):
        return
    for entry in entries:
        if isinstance(entry, dict):
            yield from (
                str(line) for line in entry.get("pip") or [] if "://" not in str(line)
            )
        elif (
            str(entry).split("=")[0].split(">")[0].split("<")[0].strip()
            not in _NOT_ON_PYPI
        ):
            pinned = not any(
                sign in str(entry) for sign in ("==", ">=", "<=", "!=", "~=")
            )
            yield str(entry).replace("=", "==", 1) if pinned else str(entry)


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
