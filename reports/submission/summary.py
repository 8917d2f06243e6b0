"""Pure: the entry's ``results/``, computed from predictions, verdicts and the dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

BY_REPO_FILE, BY_TIME_FILE = "resolved_by_repo.json", "resolved_by_time.json"
Row = Mapping[str, Any]
Share = dict[str, int]
Shares = Mapping[str, Share]


@dataclass(frozen=True)
class Lists:
    """The three lists of ``results.json``, each sorted."""

    no_generation: tuple[str, ...]
    no_logs: tuple[str, ...]
    resolved: tuple[str, ...]

    def as_json(self) -> dict[str, list[str]]:
        """Return the content of ``results.json``."""
        return {name: list(ids) for name, ids in vars(self).items()}


def lists_of(ids: Iterable[str], generated: Iterable[str], verdicts: Mapping[str, bool]) -> Lists:
    """Return the three lists.

    Args:
        ids: all instances of the split.
        generated: the instances with a patch.
        verdicts: whether those of ``generated`` with a report are resolved.
    """
    patched = set(generated)
    return Lists(
        no_generation=tuple(sorted(set(ids) - patched)),
        no_logs=tuple(sorted(patched - verdicts.keys())),
        resolved=tuple(sorted(name for name in patched if verdicts.get(name))),
    )


def by_repo(rows: Iterable[Row], resolved: Iterable[str]) -> dict[str, Share]:
    """Return the numbers of resolved and all instances by repository, sorted."""
    return _shares(((row["instance_id"], str(row["repo"])) for row in rows), resolved)


def by_time(rows: Iterable[Row], resolved: Iterable[str]) -> dict[str, Share]:
    """Return the numbers of resolved and all instances by the year of ``created_at``, sorted."""
    return _shares(((row["instance_id"], str(row["created_at"])[:4]) for row in rows), resolved)


def summary_lines(name: str, split: str, lists: Lists, repos: Shares, years: Shares) -> list[str]:
    """Return the lines that the leaderboard's ``analysis/get_results.py`` prints for an entry.

    The checklist asks for this output in the README.
    """
    rule = "=" * 50
    total = sum(share["total"] for share in repos.values())
    return [
        f"Submission summary for {name} on SWE-bench {split} split",
        rule,
        resolved_line(len(lists.resolved), total),
        rule,
        "Resolved by Repository",
        *map(_share_line, repos, repos.values()),
        rule,
        "Resolved by Time",
        *map(_share_line, years, years.values()),
    ]


def resolved_line(resolved: int, total: int) -> str:
    """Return the line of ``summary_lines`` for the whole split."""
    return f"Resolved {resolved} instances ({_rate(resolved, total)}%)"


def _share_line(name: str, share: Share) -> str:
    resolved, total = share["resolved"], share["total"]
    return f"- {name}: {resolved}/{total} ({_rate(resolved, total)}%)"


def _rate(part: int, whole: int) -> float:
    return round(part * 100.0 / whole, 2) if whole else 0.0


def _shares(groups: Iterable[tuple[str, str]], resolved: Iterable[str]) -> dict[str, Share]:
    solved = set(resolved)
    shares: dict[str, Share] = {}
    for name, group in sorted(groups, key=lambda pair: pair[1]):
        share = shares.setdefault(group, {"resolved": 0, "total": 0})
        share["total"] += 1
        share["resolved"] += name in solved
    return shares
