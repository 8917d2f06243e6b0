"""Try selection rules on recorded test outcomes: ``python -m benchmarks.selection DIR``.

DIR is a checkout of LALAYANG/Issue-Test-Localizer: patches of two models for SWE-bench Verified and
Lite, the outcomes of regression tests and generated reproduction scripts on them, and the authors'
rankings. Only patches that a ranking selected are labelled right or wrong, so the labelled picks of
a rule are no random sample of its picks, and the interval does not cover that. The bounds do: they
count the picks without a label as wrong, then as right. The columns: picks that are right, wrong,
without a label; instances without a pick; the share of the labelled; the bounds; how often the
newest ranking is right where the rule's pick has a label.

The authors ran scripts only on the candidates that pass the most regression tests; here the others
pass none. Which regression tests fail at the base commit is not recorded, so all failures count.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.attempts import choose_by_evidence
from bench.cli.cli import run_cli
from core.errors import UserError
from reports.statistics.methods import Share
from runs.evidence import CandidateClass, Evidence
from runs.records import Attempt, AttemptStatus

SETS = {
    "Verified, GPT-4o": ("verified_gpt4o", "test_logs_verified_gpt4o"),
    "Verified, Claude": ("verified_claude", "test_logs_claude_verified"),
    "Lite, GPT-4o": ("lite_gpt4o", "test_logs_gpt4o_lite"),
    "Lite, Claude": ("lite_claude", "test_logs_claude_lite"),
}
_VALID = "fail_on_original_repo"  # stands among the patches; true: the script fails at the base
_HEAD = "right wrong  none    no     of labelled, 95 %            bounds      theirs"


@dataclass(frozen=True)
class RecordedPatch:
    """A patch; the file's name stands for a text that is not published, and its size is 0."""

    name: str
    text: str
    size: int
    occurrence: int
    failing: int
    passed: frozenset[str]
    number: int


@dataclass(frozen=True)
class RecordedInstance:
    """Candidates and labels by the names of files, and the pick of the newest ranking."""

    candidates: Mapping[str, RecordedPatch]
    labels: Mapping[str, bool]
    own: str

    def least(self, key: Callable[[RecordedPatch], tuple[int, ...]]) -> str:
        return min(self.candidates.values(), key=lambda c: (*key(c), c.number)).name

    def by_evidence(self, weight: Callable[[RecordedPatch], int]) -> str:
        """Return the choice of ``--select evidence``, each patch made ``weight`` times."""
        candidates: list[Attempt] = []
        names: list[str] = []
        classes = []
        failing: dict[int, int] = {}
        for one in self.candidates.values():
            numbers = range(len(names) + 1, len(names) + 1 + weight(one))
            names += [one.name] * len(numbers)
            failing |= dict.fromkeys(numbers, one.failing)
            for number in numbers:
                candidates.append(_attempt(one, number))
            classes.append(
                CandidateClass(id=one.name, attempts=tuple(numbers), models=())
            )
        passed = {key: one.passed for key, one in self.candidates.items()}
        evidence = Evidence.of_passed(classes, passed, failing)
        winner = choose_by_evidence(candidates, evidence).winner
        if winner:
            return names[winner.attempt - 1]
        return ""


def _attempt(recorded: RecordedPatch, number: int) -> Attempt:
    clean = not recorded.failing
    status = AttemptStatus.TESTS_FAILED
    if clean:
        status = AttemptStatus.PLAUSIBLE
    return Attempt(
        attempt=number,
        model_patch="x" * max(1, recorded.size),
        imported=True,
        edit_outcome=True,
        lint_outcome=True,
        test_outcome=clean,
        status=status,
    )


RULES: Mapping[str, Callable[[RecordedInstance], str]] = {
    "lowest number": lambda n: n.least(lambda _: ()),
    "most frequent": lambda n: n.least(lambda one: (-one.occurrence,)),
    "regressions, scripts, frequency": lambda n: n.least(
        lambda one: (one.failing, -len(one.passed), -one.occurrence)
    ),
    "evidence, each patch once": lambda n: n.by_evidence(lambda _: 1),
    "evidence, as often as it was made": lambda n: n.by_evidence(
        lambda one: one.occurrence
    ),
    "the authors' newest ranking": lambda n: n.own,
}


def read_set(root: Path, key: str, logs: str) -> Iterator[RecordedInstance]:
    """Yield the instances of a set that have candidates."""
    occurrences: dict[str, dict[str, int]] = defaultdict(dict)
    labels: dict[tuple[str, str], set[bool]] = defaultdict(set)
    own: dict[str, str] = {}
    for ranking, right in _rankings(root, key):
        name = ranking["instance_id"]
        pick = Path(ranking["selected_patch"]["patch_file"]).name
        for one in (n for group in ranking["ranked_groups"].values() for n in group):
            occurrences[name][Path(one["patch_file"]).name] = one["occurrence"]
        own[name] = pick
        labels[name, pick].add(right)
    for path in sorted((root / logs / "results").glob("*_inner_results.json")):
        name = path.name.removesuffix("_inner_results.json")
        patches = root / "all_patches" / f"{key}_all_unique_patches" / name
        found = _candidates(path, patches, occurrences[name])
        # Candidates of one text share labels; rankings that contradict each other give none.
        said: dict[str, set[bool]] = defaultdict(set)
        for one in found:
            said[one.text] |= labels[name, one.name]
        known = {
            one.name: True in said[one.text]
            for one in found
            if len(said[one.text]) == 1
        }
        if found:
            yield RecordedInstance(
                {one.name: one for one in found}, known, own.get(name, "")
            )


def _rankings(root: Path, key: str) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield the set's labelled rankings, oldest first, with the label of the selected patch."""
    files = root.glob("final_*/**/all_repro_rerank_*/ranked.json")
    for file in sorted(
        files, key=lambda path: path.parent.name
    ):  # which ends with the time
        for row in (row for row in _json(file) if "instance_id" in row):
            ranking = _json(file.with_name(f"{row['instance_id']}.json"))
            pick = ranking["selected_patch"]
            if pick and f"/{key}_all_unique_patches/" in pick["patch_file"]:
                yield ranking, row["overlap_count"] > 0


def _candidates(
    path: Path,
    patches: Path,
    occurrences: Mapping[str, int],
) -> list[RecordedPatch]:
    recorded = _json(path)
    regression = _passed(recorded["regression"])
    scripts = _passed(recorded["reproduction"])
    valid = scripts.pop(_VALID, frozenset())
    tests = {
        t for by in recorded["regression"].values() for one in by.values() for t in one
    }
    known = {
        file.name: _json(file) for file in patches.glob("*.jsonl")
    }  # one line each
    made = []
    for name in sorted({*regression, *scripts, *known, *occurrences}):
        text = known.get(name, {}).get("model_patch", "")
        times = occurrences.get(name) or known.get(name, {}).get("occurrence", 1)
        failing = len(tests - regression.get(name, frozenset()))
        passed = scripts.get(name, frozenset()) & valid
        number = int(re.sub(r"\D", "", name))
        made.append(
            RecordedPatch(name, text or name, len(text), times, failing, passed, number)
        )
    return made


def _passed(
    outcomes: Mapping[str, Mapping[str, Mapping[str, bool]]],
) -> dict[str, frozenset[str]]:
    return {
        Path(file).name: frozenset(
            n for tests in by.values() for n, ok in tests.items() if ok
        )
        for file, by in outcomes.items()
    }


def _lines(title: str, instances: Sequence[RecordedInstance]) -> Iterator[str]:
    yield f"  {f'{title}: {len(instances)}':<34}{_HEAD}"
    for name, rule in RULES.items():
        picks = [(one, pick) for one in instances if (pick := rule(one))]
        said = [one.labels.get(pick) for one, pick in picks]
        right, wrong, unknown = (said.count(value) for value in (True, False, None))
        both = [
            n.labels[n.own]
            for n, pick in picks
            if pick in n.labels and n.own in n.labels
        ]
        known = right + wrong
        share = "-"
        found = Share.compute(right, known).interval
        if found:
            share = f"{100 * right / known:.1f} % ({100 * found.low:.1f}-{100 * found.high:.1f})"
        low, high = (100 * n / max(1, len(said)) for n in (right, right + unknown))
        yield (
            f"  {name:<33}{right:>6}{wrong:>6}{unknown:>6}{len(instances) - len(said):>6}"
            f"{share:>24}{f'{low:.1f} to {high:.1f} %':>18}{sum(both):>5} of {len(both)}"
        )


def main(
    folder: Annotated[Path, typer.Argument(help="The checkout.", metavar="DIR")],
) -> None:
    """Print how often each rule picks a right candidate."""
    for title, (key, logs) in SETS.items():
        instances = list(read_set(folder, key, logs))
        if not instances:
            raise UserError(
                f"{folder / logs} has no outcomes; give a checkout of the repository"
            )
        split = []
        for n in instances:
            if len({c.passed for c in n.candidates.values()}) > 1:
                split.append(n)
        labels = [label for one in instances for label in one.labels.values()]
        candidates = sum(len(one.candidates) for one in instances)
        print(
            f"{title}: {candidates} candidates, {len(labels)} labelled, {sum(labels)} right"
        )
        for words, ones in (
            ("instances", instances),
            ("scripts tell candidates apart", split),
        ):
            print(
                "\n".join(
                    _lines(words, ones) if labels else (f"  {words}: {len(ones)}",)
                )
            )


def _json(path: Path) -> Any:  # noqa: ANN401 - recorded by others
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(run_cli(main, "benchmarks.selection"))
