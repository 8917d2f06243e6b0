"""Check a package of any harness before it is submitted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from itertools import zip_longest
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from bench.instances.adapters.base import Row
from bench.instances.instance import split_row
from bench.repos.mirrors import Mirrors
from core.parsing.untrusted import MIB
from core.redaction import Redactor
from reports.data.jsonvalues import mapping
from reports.data.verdicts import OUTPUT_FILE, PATCH_FILE, REPORT_FILE
from reports.submission.artifacts import (
    Expected,
    PatchLine,
    check_predictions,
    check_trajectories,
    read_lines,
)
from reports.submission.entry import attempts_tag, check_entry
from reports.submission.package import (
    Kind,
    PackageFinding,
    PackageFolder,
    PathType,
    SizeLimits,
    UnusableError,
    findings_of,
    locate,
)
from reports.submission.readme import (
    BY_REPO_FILE,
    BY_TIME_FILE,
    Lists,
    RepoCounts,
    by_repo,
    by_time,
    lists_of,
    resolved_line,
)
from runs.storage.store import RESULTS_FILE


@dataclass(frozen=True)
class Against:
    rows: Sequence[Row]  # of all instances of the split
    today: date
    mirrors: Mirrors | None = None  # checks that need base commits are skipped without
    redact: Redactor = field(default_factory=Redactor)
    limits: SizeLimits = field(default_factory=SizeLimits)


def validate(folder: Path, against: Against) -> list[PackageFinding]:
    """Return the faults of the package in ``folder``, each once, in the order of the package.

    The package is not trusted: no link is followed, every read has a limit, and a broken file does
    not end the validation.
    """
    root = PackageFolder.of(folder, against.limits)
    places = locate(root)
    halves = {str(row["instance_id"]): split_row(row) for row in against.rows}
    found = [*places.faults, *check_files(root, against.redact)]
    verdicts: Mapping[str, bool] = {}
    lines: Sequence[PatchLine] = ()
    tag = ""
    if places.entry:
        tag = attempts_tag(places.entry)
        found += [*check_todo(places.entry, deep=True), *check_entry(places.entry, against.today)]
    if places.artifacts:
        lines, faults = read_lines(places.artifacts)
        instances = {name: instance for name, (instance, _) in halves.items()}
        found += [*faults, *check_todo(places.artifacts, deep=False)]
        found += check_predictions(lines, instances, against.mirrors)
        verdicts, faults = read_verdicts(places.artifacts, lines, halves.keys())
        found += faults
        expected = Expected(halves, against.mirrors, tag)
        found += check_trajectories(places.artifacts, lines, expected)
    if places.artifacts and places.entry:
        found += check_results(places.entry, lines, verdicts, against.rows)
    return list(dict.fromkeys(found))


_QUOTING = ("logs", "trajs")
_TEXTS = (".md", ".yaml", ".yml", ".json", ".txt")


def check_files(root: PackageFolder, redact: Redactor) -> Iterator[PackageFinding]:
    """Yield the faults of all files below ``root``."""
    total = 0
    for name, sort, size in root.files():
        total += size
        if name.split("/", 1)[0] == ".git":
            continue
        if sort is not PathType.FILE:
            yield root.fault(Kind.LINK, name, f"is a {sort.value}", "replace it by the file")
        elif size > root.limits.file:
            problem = f"{size // MIB} MiB, but GitHub refuses more than {root.limits.file // MIB}"
            yield root.fault(Kind.SIZE, name, problem, "shorten or compress it")
        else:
            yield from findings_of(_secrets(root, name, redact))
    if total > root.limits.total:
        problem = f"{total // MIB} MiB, but GitHub asks for at most {root.limits.total // MIB}"
        yield root.fault(Kind.SIZE, "", problem, "shorten logs and trajectories")


def _secrets(root: PackageFolder, name: str, redact: Redactor) -> Iterator[PackageFinding]:
    if name.endswith(".gz"):
        found, tail = None, b""
        for block in root.unpacked(name):
            data = tail + block
            found = found or secret_in(data.decode("utf-8", "replace"), redact)
            tail = data[-OVERLAP:]
    else:
        found = secret_in(root.data(name).decode("utf-8", "replace"), redact)
    if found:
        fix = "redact it, and revoke it if it was ever valid"
        yield root.fault(Kind.SECRET, name, f"contains {found}", fix)


def check_todo(folder: PackageFolder, *, deep: bool) -> Iterator[PackageFinding]:
    """Yield each TODO in the texts of ``folder``.

    Predictions, logs and trajectories quote repositories, which contain many TODOs. So only texts
    that submitters write are checked: the entry, and the texts at the top of the artifacts.
    """
    for name, sort, _ in folder.files():
        if sort is not PathType.FILE or not name.endswith(_TEXTS) or (not deep and "/" in name):
            continue
        if name.split("/", 1)[0] in _QUOTING:
            continue
        try:
            lines = folder.text(name).splitlines()
        except UnusableError:
            continue  # reported by other checks
        for number, line in enumerate(lines, 1):
            if "TODO" in line:
                place = f"{folder.place(name)}:{number}"
                yield PackageFinding(Kind.TODO, place, "contains a TODO", "fill it in")


# Each pattern is long enough that no word or hash matches it.
_SHAPES = {
    "a key of Anthropic": r"sk-ant-[\w-]{24,}",
    "a key of OpenRouter": r"sk-or-v1-[0-9a-f]{32,}",
    "a key of OpenAI": r"sk-(?:proj|svcacct|admin)-[\w-]{40,}|sk-[A-Za-z0-9]{32,}",
    "a token of GitHub": r"gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{50,}",
    "a token of GitLab": r"glpat-[\w-]{20,}",
    "a key of AWS": r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    "a key of Google": r"AIza[\w-]{35}",
    "a token of Hugging Face": r"hf_[A-Za-z0-9]{34,}",
    "a key of Groq": r"gsk_[A-Za-z0-9]{40,}",
    "a key of xAI": r"xai-[A-Za-z0-9]{40,}",
    "a token of Slack": r"xox[abprs]-[A-Za-z0-9-]{20,}",
    "a private key": r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40,}",
}
_ANY = re.compile(
    "|".join(f"(?P<s{n}>(?<![\\w-])(?:{shape}))" for n, shape in enumerate(_SHAPES.values()))
)
# A quick check before the regular expression, because most texts contain none of these.
_BEGINNINGS = (
    "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "AKIA", "ASIA", "AIza",
    "hf_", "gsk_", "xai-", "xox", "-----BEGIN",
)  # fmt: skip
_NAMES = tuple(_SHAPES)
# The overlap of two blocks; no key is longer.
OVERLAP = 512


def secret_in(text: str, redact: Redactor) -> str | None:
    """Return a description of a secret in ``text``, None if there is none."""
    if name := redact.named_in(text):
        return f"the value of {name}"
    if not any(beginning in text for beginning in _BEGINNINGS):
        return None
    match = _ANY.search(text)
    return _NAMES[int(str(match.lastgroup)[1:])] if match else None


_OUTPUTS = (f"{OUTPUT_FILE}.gz", OUTPUT_FILE)


def read_verdicts(
    artifacts: PackageFolder, lines: Sequence[PatchLine], known: Collection[str]
) -> tuple[dict[str, bool], list[PackageFinding]]:
    """Return verdicts by id and the faults of the logs; only ``known`` ids are used in paths."""
    logs = artifacts.below("logs")
    verdicts: dict[str, bool] = {}
    faults = []
    if logs.sort() is not PathType.FOLDER:
        faults.append(
            logs.fault(Kind.MISSING, "", "is missing", "add logs/<id>/ for each prediction")
        )
    for name in logs.names():
        if name not in known:
            problem = f"{name} is not in the dataset"
            faults.append(logs.fault(Kind.UNKNOWN_ID, name, problem, "delete it"))
    for line in {line.instance_id: line for line in lines if line.generated}.values():
        if line.instance_id in known:
            folder = logs.below(line.instance_id)
            faults += findings_of(_evaluation(folder, line, verdicts))
    return verdicts, faults


def _evaluation(
    folder: PackageFolder, line: PatchLine, verdicts: dict[str, bool]
) -> Iterator[PackageFinding]:
    """Yield the faults of the logs of one prediction; add its verdict to ``verdicts``."""
    name = line.instance_id
    yield from findings_of(_patch(folder, line))
    if folder.sort(REPORT_FILE) is PathType.NOTHING:
        return
    if not any(folder.sort(output) is PathType.FILE for output in _OUTPUTS):
        fix = "add swebench's test output, compressed"
        yield folder.fault(Kind.MISSING, _OUTPUTS[0], "is missing", fix)
    resolved = mapping(mapping(folder.json(REPORT_FILE)).get(name)).get("resolved")
    if isinstance(resolved, bool):
        verdicts[name] = resolved
    else:
        problem, place = (
            f"does not say whether {name} is resolved, true or false",
            folder.spot(REPORT_FILE, name, "resolved"),
        )
        yield PackageFinding(Kind.LOGS, place, problem, "use swebench's own report")


def _patch(folder: PackageFolder, line: PatchLine) -> Iterator[PackageFinding]:
    evaluated = folder.text(PATCH_FILE)
    if evaluated.strip() != line.patch.strip():
        pairs = zip_longest(evaluated.split("\n"), line.patch.split("\n"))
        number = next((n for n, (one, other) in enumerate(pairs, 1) if one != other), 1)
        problem = f"differs from the predicted patch of {line.instance_id}"
        place = f"{folder.place(PATCH_FILE)}:{number}"
        yield PackageFinding(Kind.LOGS, place, problem, "evaluate the prediction")


_FOLDER = "results"
_README = "README.md"
_RESOLVED = re.compile(r"\bResolved \d+ instances \([\d.]+%\)")


class _Counts(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    resolved: int
    total: int


_LISTS, _SHARES = TypeAdapter(Lists), TypeAdapter(dict[str, _Counts])


def check_results(
    entry: PackageFolder,
    lines: Sequence[PatchLine],
    verdicts: Mapping[str, bool],
    rows: Sequence[Row],
) -> Iterator[PackageFinding]:
    """Yield the faults of the entry's ``results/`` and of the results in its README."""
    folder = entry.below(_FOLDER)
    ids = [str(row["instance_id"]) for row in rows]
    wanted = lists_of(ids, {line.instance_id for line in lines if line.generated}, verdicts)
    yield from findings_of(_compare(folder, wanted))
    with suppress(UnusableError):  # reported by ``check_entry``
        right = resolved_line(len(wanted.resolved), len(rows))
        for wrong in sorted({*_RESOLVED.findall(entry.text(_README))} - {right}):
            problem = f"says {wrong!r}, but predictions and reports give {right!r}"
            yield entry.fault(Kind.README, _README, problem, "count again")
    dated = all(row.get("created_at") for row in rows)
    years = by_time(rows, wanted.resolved) if dated else None
    yield from findings_of(_shares(folder, BY_REPO_FILE, by_repo(rows, wanted.resolved)))
    yield from findings_of(_shares(folder, BY_TIME_FILE, years))


def _compare(folder: PackageFolder, wanted: Lists) -> Iterator[PackageFinding]:
    fix = f"write {', '.join(wanted.model_dump())}, each a list of ids"
    given = folder.typed(RESULTS_FILE, _LISTS, Kind.RESULTS, fix)
    for name, right in wanted.model_dump().items():
        ids, place = getattr(given, name), folder.spot(RESULTS_FILE, name)
        if ids != sorted(set(ids)):
            problem = f"{name} is not sorted, or contains an id twice"
            yield PackageFinding(Kind.RESULTS, place, problem, "sort it")
        # Instances without a patch may be listed as without logs, too.
        allowed = {*right, *wanted.no_generation} if name == "no_logs" else set(right)
        for wrong in sorted(set(ids) - allowed):
            problem = f"{name} names {wrong}, but predictions and reports do not agree"
            yield PackageFinding(Kind.RESULTS, place, problem, "count again")
        for missing in sorted(set(right) - set(ids)):
            problem = f"{name} does not name {missing}, but predictions and reports do"
            yield PackageFinding(Kind.RESULTS, place, problem, "count again")


def _shares(
    folder: PackageFolder, name: str, wanted: Mapping[str, RepoCounts] | None
) -> Iterator[PackageFinding]:
    fix = 'write {"name": {"resolved": 1, "total": 2}}'
    typed = folder.typed(name, _SHARES, Kind.RESULTS, fix)
    found = {key: counts.model_dump() for key, counts in typed.items()}
    for key in sorted({*wanted, *found}) if wanted is not None else ():
        own, right = (
            f"{counts['resolved']} of {counts['total']}" if counts else "nothing"
            for counts in (found.get(key), wanted.get(key))  # type: ignore[union-attr]
        )
        if own != right:
            problem = f"{key}: {own}, but predictions, reports and dataset give {right}"
            fix = "count all instances of the split again"
            yield PackageFinding(Kind.RESULTS, folder.spot(name, key), problem, fix)
