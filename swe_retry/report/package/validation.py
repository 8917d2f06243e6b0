"""Check a package that was built, before it is submitted."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from swe_retry.core.data import read_yaml
from swe_retry.core.git import GitError
from swe_retry.core.redaction import Redactor
from swe_retry.core.untrusted import MIB
from swe_retry.instances.adapters.adapter import Row
from swe_retry.instances.instance import Instance
from swe_retry.instances.split import split_row
from swe_retry.record.patches import is_excluded, split_patch
from swe_retry.record.store import read_trajectory_file
from swe_retry.report.package.hidden import mirror_of, texts_of, traces
from swe_retry.report.package.meta import Meta
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.repositories.patches import applies_to
from swe_retry.results.predictions import ALL_PREDS
from swe_retry.results.verdicts import OUTPUT_FILE, REPORT_FILE

MAX_FILE_BYTES = 100 * MIB  # GitHub refuses larger ones
MAX_TOTAL_BYTES = 5 * 1024 * MIB  # GitHub asks for smaller repositories
_OPEN_BOX = re.compile(r"^\s*[-*] \[ \]", re.MULTILINE)
_FILE_HEADER = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)", re.MULTILINE)
_SECRETS = read_yaml(__file__, "secrets.yaml")
_PATTERNS: dict[str, str] = _SECRETS["patterns"]
_SECRET = re.compile(rf"(?<![\w-])(?:({')|('.join(_PATTERNS.values())}))")

# Names and ids may have any length.
_MAX_LENGTH = 400


class PackageFolder:
    """The folder of a package, with the entry below ``evaluation/``."""

    def __init__(self, root: Path, entry: str) -> None:
        self.root = root
        self.artifacts = root / "artifacts"
        self.predictions = self.artifacts / ALL_PREDS
        self.logs = self.artifacts / "logs"
        self.trajectories = self.artifacts / "trajs"
        self.entry = root / "entry" / "evaluation" / entry
        self.readme = self.entry / "README.md"

    def fault(
        self,
        kind: str,
        path: Path,
        problem: str,
        fix: str,
        line: int | None = None,
    ) -> str:
        """Return a fault as one printable line; other characters are escaped.

        ``kind`` is one of docs/submission.md.
        """
        location = str(path.relative_to(self.root))
        if line:
            location += f":{line}"
        text = f"{kind}: {location[:_MAX_LENGTH]}: {problem[:_MAX_LENGTH]}; {fix}"
        printable = ""
        for character in text:
            if not character.isprintable():
                character = character.encode("unicode_escape").decode()
            printable += character
        return printable


def validate(
    package: PackageFolder,
    rows: Sequence[Row],
    meta: Meta,
    mirrors: Mirrors,
    redact: Redactor,
) -> list[str]:
    """Return the faults of a package that was built, a line each.

    ``rows`` are all instances of the split. A check that needs a base commit is skipped where
    ``mirrors`` lack it.
    """
    faults = list(_file_faults(package, redact))
    faults += _entry_faults(package, meta)
    traced = []
    rows_by_id = {str(row["instance_id"]): row for row in rows}
    text = package.predictions.read_text("utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        prediction = json.loads(line)
        name = prediction["instance_id"]
        patch = prediction["model_patch"]
        instance, evaluation = split_row(rows_by_id[name])
        mirror = mirror_of(instance, mirrors)
        for kind, problem, fix in _patch_faults(instance, patch, mirror):
            fault = package.fault(kind, package.predictions, problem, fix, number)
            faults.append(fault)
        path = package.trajectories / f"{name}.json"
        texts = texts_of(read_trajectory_file(path, instance.instance_id))
        for field, example in traces(texts, instance, evaluation, patch, mirror):
            problem = f"shows {field}: {example[:80]!r}"
            fix = "find out how it got there; an attempt with hidden knowledge does not count"
            traced.append(package.fault("trace", path, problem, fix))
    faults += _log_faults(package)
    return faults + traced


def _file_faults(package: PackageFolder, redact: Redactor) -> Iterator[str]:
    """Yield the faults of all files of a package: sizes and secrets."""
    total = 0
    for path in sorted(package.root.rglob("*")):
        if not path.is_file():
            continue
        size = path.stat().st_size
        total += size
        if size > MAX_FILE_BYTES:
            problem = f"{size // MIB} MiB, but GitHub refuses more than {MAX_FILE_BYTES // MIB}"
            yield package.fault("size", path, problem, "shorten or compress it")
            continue
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        secret = secret_in(data.decode("utf-8", "replace"), redact)
        if secret:
            fix = "redact it, and revoke it if it was ever valid"
            yield package.fault("secret", path, f"contains {secret}", fix)
    if total > MAX_TOTAL_BYTES:
        problem = (
            f"{total // MIB} MiB, but GitHub asks for at most {MAX_TOTAL_BYTES // MIB}"
        )
        fix = "shorten logs and trajectories"
        yield package.fault("size", package.root, problem, fix)


def secret_in(text: str, redact: Redactor) -> str:
    """Return in words what secret is in ``text``; empty without one."""
    variable = redact.named_in(text)
    if variable:
        return f"the value of {variable}"
    if any(beginning in text for beginning in _SECRETS["beginnings"]):
        match = _SECRET.search(text)
        if match and match.lastindex:
            return list(_PATTERNS)[match.lastindex - 1]
    return ""


def _entry_faults(package: PackageFolder, meta: Meta) -> Iterator[str]:
    if meta.date > date.today():
        problem = f"its date {meta.date} is in the future"
        fix = "use the day of the submission"
        yield package.fault("name", package.entry, problem, fix)
    if _OPEN_BOX.search(package.readme.read_text("utf-8")):
        problem = "a box of the checklist is open"
        yield package.fault("readme", package.readme, problem, "check it")


def _patch_faults(
    instance: Instance,
    patch: str,
    mirror: Path | None,
) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, problem and fix of each fault of a patch."""
    if not patch.strip():
        return
    try:
        patch.encode()
    except UnicodeEncodeError:
        problem = f"the patch of {instance.instance_id} is not UTF-8"
        fix = "predict a patch without such lines, and evaluate again"
        yield "unreadable", problem, fix
    data = patch.encode("utf-8", "surrogateescape")
    files = [(part.path, part.new) for part in split_patch(data)]
    if not files:
        files = [(path, False) for path in _FILE_HEADER.findall(patch)]
    excluded = [path for path, new in files if is_excluded(path, new=new)]
    if not files or any(not path.strip("/. ") for path, _ in files):
        yield "patch", "the patch names no file", "use git's format"
    elif excluded:
        problem = f"the patch edits {', '.join(excluded[:3])}"
        fix = "remove tests, test configuration and build output, and evaluate again"
        yield "test edit", problem, fix
    if mirror and not _applies(instance, patch, mirror):
        commit = instance.base_commit[:12]
        problem = f"the patch does not apply to {commit} of {instance.repo}"
        yield "patch", problem, "predict a patch that applies"


def _applies(instance: Instance, patch: str, mirror: Path) -> bool:
    try:
        return applies_to(mirror, instance.base_commit, patch)
    except GitError:
        return True  # the mirror's fault, not the package's


def _log_faults(package: PackageFolder) -> Iterator[str]:
    """Yield a fault for each report of swebench without the test output that it is of."""
    for report in sorted(package.logs.glob(f"*/{REPORT_FILE}")):
        output = report.with_name(f"{OUTPUT_FILE}.gz")
        if not output.is_file():
            fix = "evaluate the instance again"
            yield package.fault("missing", output, "is missing", fix)
