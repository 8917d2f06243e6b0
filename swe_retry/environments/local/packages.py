"""Packages for environments: limited to an era, and built as their projects require."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from swe_retry.core.atomic import write_text_atomic
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.plaintext import Say
from swe_retry.core.processes import run_limited, without_secrets
from swe_retry.environments.base import BrokenEnvironmentError, VenvSpec
from swe_retry.environments.local.buildsteps import BuildSteps

NO_UPLOAD_TIMES = (
    "the package index gives no upload times: environments get packages of today, with which old "
    "projects may not build or pass; use an index that has them, such as pypi.org"
)
# What old setup.py files use was removed from later ones; ``Feature`` is in those before 46.
_OLD_TOOLS = ("setuptools<60\ncython<3\n", "setuptools<46\ncython<3\n")
# No package of the project: later ones install old projects better.
_INSTALLER = "pip"
_INDEX_SECONDS = 120.0
_FAR_DATE = "2999-01-01"
# In the metadata of a package that lies in a shared environment.
_COPY = ".shared"


def uv_path() -> str:
    from uv import find_uv_bin

    return str(find_uv_bin())


def check_index() -> None:
    """Check that the package index of this machine answers; nothing is installed.

    Raises:
        InfrastructureError: naming why it does not.
    """
    command = [uv_path(), "pip", "install", "-q", "--dry-run", "--upgrade", "--no-deps"]
    command += ["--break-system-packages", "--python", sys.executable]
    environment = without_secrets(os.environ)
    root = Path("/")
    result = run_limited([*command, _INSTALLER], root, environment, _INDEX_SECONDS)
    if result.exit_code != 0:
        causes = " ".join(result.output.split())
        raise InfrastructureError(f"the package index is not reached: {causes}")


@dataclass(frozen=True)
class Installer:
    """Installs packages with uv.

    Attributes:
        date: later packages are not installed, nor used for a build; empty for no limit.
        folder: for the files that uv reads.
    """

    steps: BuildSteps
    python: Path
    date: str
    folder: Path

    @property
    def limits(self) -> Sequence[str]:
        """The options by which uv leaves later packages out."""
        if not self.date:
            return ()
        newest = f"{_INSTALLER}={_FAR_DATE}"
        return ("--exclude-newer", self.date, "--exclude-newer-package", newest)

    def install(
        self, what: str, requirements: Iterable[str], *options: str | Path
    ) -> None:
        """Install ``requirements``; where that fails, with older and older tools for builds."""
        # Linked files would be shared with uv's cache and every other environment.
        command: list[str | Path] = [uv_path(), "pip", "install", "-q"]
        command += ["--link-mode", "copy", "--python", self.python]
        command += [*self.limits, *options, *requirements]
        try:
            self.steps.run(what, command)
        except BrokenEnvironmentError as error:
            for tools in _OLD_TOOLS:
                constraints = self.write("old-build-tools.txt", tools)
                with suppress(BrokenEnvironmentError):
                    self.steps.run(what, [*command, "--build-constraints", constraints])
                    return
            raise error from None

    def write(self, name: str, text: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / name
        path.write_text(text, "utf-8")
        return path


def pins(requirements: Iterable[str]) -> list[str]:
    """Return those of ``requirements`` that name one version."""
    return [text for text in requirements if re.search(r"==[^*]*(;|$)", text)]


def find_era(
    spec: VenvSpec,
    steps: BuildSteps,
    python: Path,
    version: tuple[int, int],
    folder: Path,
    warn: Say,
) -> str:
    """Return the date that packages of ``spec``, which has one, are limited to; empty for none.

    It is the latest of the files' date, that of the Python, and the uploads of what the spec pins.
    The index is asked once; the answer is kept in ``folder``.
    """
    era_file = folder / "era.txt"
    if era_file.is_file():
        era = era_file.read_text("utf-8").strip()
    else:
        installer = Installer(steps, python, "", folder)
        era = _measure_era(spec, installer, version)
        write_text_atomic(era_file, era)
    if not era:
        warn(NO_UPLOAD_TIMES)
    return era


def _measure_era(spec: VenvSpec, installer: Installer, version: tuple[int, int]) -> str:
    pinned = pins([*spec.packages, *spec.pip_packages])
    # Where nothing is pinned, the installer tells whether the index gives times.
    names = installer.write("pins.txt", "\n".join(pinned) or _INSTALLER)
    overrides = installer.write("overrides.txt", "\n".join(pins(spec.pip_packages)))
    lock = installer.folder / "pylock.toml"
    command: list[str | Path] = [uv_path(), "pip", "compile", "-q", "--no-deps"]
    command += ["--python", installer.python, "--overrides", overrides]
    command += ["--format", "pylock.toml", "-o", lock, names]
    installer.steps.run("install packages", command)
    uploads = re.findall(r"upload-time = ([^,\s]+)Z", lock.read_text("utf-8"))
    if not uploads:
        return ""
    # There is a Python each October since 3.8 in 2019, and packages for it by the year's end.
    dates = [end_of_quarter(spec.date), f"{2012 + version[1]}-01-01T00:00:00Z"]
    if pinned:
        # uv leaves the fraction of the second out.
        dates.append(f"{max(uploads)}.999999Z")
    return max(dates)


def end_of_quarter(date: str) -> str:
    """Return when the quarter of ``date`` ends: rows of one quarter share environments."""
    year = int(date[:4])
    quarter = (int(date[5:7]) + 2) // 3
    if quarter == 4:
        return f"{year + 1}-01-01T00:00:00Z"
    return f"{year}-{3 * quarter + 1:02}-01T00:00:00Z"


def limit_of_day(date: str, era: str) -> str:
    """Return the end of a day where the era is only that of its quarter; else the era."""
    if date and era == end_of_quarter(date):
        return f"{date}T23:59:59Z"
    return era


def build_requirements(tree: Path) -> list[str]:
    """Return what the project in ``tree`` needs to be built, by its ``pyproject.toml``."""
    try:
        text = (tree / "pyproject.toml").read_text("utf-8")
        return list(from_index(tomllib.loads(text)["build-system"]["requires"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []


# Backends name more than the file does: hatchling needs editables to install in place.
FURTHER_REQUIREMENTS = """
import os
from pip._vendor.pyproject_hooks import BuildBackendHookCaller as Caller
try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib
with open("pyproject.toml", "rb") as file:
    system = tomllib.load(file)["build-system"]
backend = system.get("build-backend", "setuptools.build_meta:__legacy__")
caller = Caller(os.getcwd(), backend, system.get("backend-path"))
print("\\n" + "\\n".join(caller.get_requires_for_build_editable({})))
"""


def from_index(requirements: Iterable[str]) -> Iterator[str]:
    """Yield those of ``requirements`` that an index has; addresses could run any code."""
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if not requirement.url:
            yield str(requirement)


def project_requirements(
    folders: Sequence[Path], extras: Sequence[str], version: tuple[int, int]
) -> list[str]:
    """Return what the distributions in ``folders`` need with ``extras``."""
    number = f"{version[0]}.{version[1]}"
    python = {"python_version": number, "python_full_version": f"{number}.0"}
    needed = {}
    for distribution in distributions(path=list(map(str, folders))):
        for text in from_index(distribution.requires or ()):
            requirement = Requirement(text)
            marker = requirement.marker
            for extra in ("", *extras):
                if not marker or marker.evaluate({**python, "extra": extra}):
                    requirement.marker = None
                    needed[str(requirement)] = True
    return list(needed)


def copy_metadata(shared_site: Path, site: Path) -> list[Path]:
    """Let uv see the packages of ``shared_site`` as if they were installed in ``site``."""
    copies = []
    for folder in shared_site.glob("*.dist-info"):
        copy = site / folder.name / _COPY
        shutil.copytree(folder, copy.parent)
        # uv removes it with a package that it replaces.
        copy.touch()
        copies.append(copy)
    return copies
