"""Check a package that was built, before it is submitted."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from bench.instances.adapters.base import Row
from bench.instances.instance import split_row
from bench.repos.mirrors import Mirrors
from core.parsing.untrusted import MIB
from core.redaction import Redactor
from reports.data.verdicts import OUTPUT_FILE, REPORT_FILE
from reports.submission.artifacts import (
    check_predictions,
    check_trajectories,
    read_lines,
)
from reports.submission.entry import Meta, check_entry
from reports.submission.package import PackageFolder


def validate(
    package: PackageFolder,
    rows: Sequence[Row],
    meta: Meta,
    today: date,
    mirrors: Mirrors,
    redact: Redactor,
) -> list[str]:
    """Return the faults of a package that was built, a line each.

    ``rows`` are all instances of the split. A check that needs a base commit is skipped where
    ``mirrors`` lack it.
    """
    halves = {str(row["instance_id"]): split_row(row) for row in rows}
    predictions = read_lines(package)
    faults = list(check_files(package, redact))
    faults += check_entry(package, meta, today)
    faults += check_predictions(package, predictions, halves, mirrors)
    faults += check_logs(package)
    faults += check_trajectories(package, predictions, halves, mirrors)
    return faults


MAX_FILE_BYTES = 100 * MIB  # GitHub refuses larger ones
MAX_TOTAL_BYTES = 5 * 1024 * MIB  # GitHub asks for smaller repositories


def check_files(package: PackageFolder, redact: Redactor) -> Iterator[str]:
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
        secret = secret_in(_text_of(path), redact)
        if secret:
            fix = "redact it, and revoke it if it was ever valid"
            yield package.fault("secret", path, f"contains {secret}", fix)
    if total > MAX_TOTAL_BYTES:
        problem = (
            f"{total // MIB} MiB, but GitHub asks for at most {MAX_TOTAL_BYTES // MIB}"
        )
        yield package.fault(
            "size", package.root, problem, "shorten logs and trajectories"
        )


def _text_of(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return data.decode("utf-8", "replace")


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
_SHAPE = "|".join(f"({shape})" for shape in _SHAPES.values())
_ANY = re.compile(rf"(?<![\w-])(?:{_SHAPE})")
# A quick check before the regular expression, because most texts contain none of these.
_BEGINNINGS = (
    "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "AKIA", "ASIA", "AIza",
    "hf_", "gsk_", "xai-", "xox", "-----BEGIN",
)  # fmt: skip
_NAMES = tuple(_SHAPES)


def secret_in(text: str, redact: Redactor) -> str | None:
    """Return a description of a secret in ``text``, None if there is none."""
    if name := redact.named_in(text):
        return f"the value of {name}"
    if not any(beginning in text for beginning in _BEGINNINGS):
        return None
    match = _ANY.search(text)
    return _NAMES[match.lastindex - 1] if match and match.lastindex else None


def check_logs(package: PackageFolder) -> Iterator[str]:
    """Yield a fault for each report of swebench without the test output that it is of."""
    for report in sorted(package.logs.glob(f"*/{REPORT_FILE}")):
        output = report.with_name(f"{OUTPUT_FILE}.gz")
        if not output.is_file():
            fix = "evaluate the instance again"
            yield package.fault("missing", output, "is missing", fix)
