"""Rules of choosing among candidates, against each other.

``python -m benchmarks.selection worlds``, or ``… selection DIR``.

``worlds`` compares them on generated instances (``benchmarks.worlds``).

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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.bestrule import BestRule
from benchmarks.worlds import (
    WORLD_RULES,
    WORLDS,
    LabelledInstance,
    believe,
    make_instances,
    stop_when_sure,
)
from swe_retry.attempts.evidence.choice import choose_by_evidence
from swe_retry.core.errors import UserError
from swe_retry.launch.program import Program
from swe_retry.record.evidence import (
    SOLVED,
    THERE,
    CandidateClass,
    Evidence,
    ReproductionScript,
    ScriptSource,
)
from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.report.statistics.methods import Share
from swe_retry.study.matrix import MatrixCandidate

SETS = {
    "Verified, GPT-4o": ("verified_gpt4o", "test_logs_verified_gpt4o"),
    "Verified, Claude": ("verified_claude", "test_logs_claude_verified"),
    "Lite, GPT-4o": ("lite_gpt4o", "test_logs_gpt4o_lite"),
    "Lite, Claude": ("lite_claude", "test_logs_claude_lite"),
}
_MOST_FOR_BEST = 6
"""Attempts up to which the best rule is known: it weighs each set of classes."""
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
    ranked_first: str

    def least(self, key: Callable[[RecordedPatch], tuple[int, ...]]) -> str:
        candidates = self.candidates.values()
        return min(candidates, key=lambda patch: (*key(patch), patch.number)).name

    def by_evidence(self, weight: Callable[[RecordedPatch], int]) -> str:
        """Return the choice of ``--select evidence``, each patch made ``weight`` times."""
        attempts: list[Attempt] = []
        names: list[str] = []
        classes = []
        failing = {}
        passed = {}
        for name, patch in self.candidates.items():
            first = len(names) + 1
            numbers = range(first, first + weight(patch))
            for number in numbers:
                names.append(name)
                attempts.append(_attempt(patch, number))
                failing[number] = patch.failing
            patch_class = CandidateClass(id=name, attempts=tuple(numbers), models=())
            classes.append(patch_class)
            passed[name] = patch.passed
        evidence = evidence_of(classes, passed, failing)
        winner = choose_by_evidence(attempts, evidence).winner
        if winner:
            return names[winner.attempt - 1]
        return ""


def evidence_of(
    classes: Sequence[CandidateClass],
    passed: Mapping[str, frozenset[str]],
    failing: Mapping[int, int],
) -> Evidence:
    """Return the evidence of valid scripts of which only is known which class passes them."""
    scripts = []
    outcomes = {}
    passed_scripts = frozenset().union(*passed.values())
    for name in sorted(passed_scripts):
        script = ReproductionScript(
            id=name,
            source=ScriptSource.ISSUE,
            base=(THERE, THERE),
        )
        scripts.append(script)
        codes = dict.fromkeys(passed, THERE)
        for key, names in passed.items():
            if name in names:
                codes[key] = SOLVED
        outcomes[name] = codes
    return Evidence(
        classes=tuple(classes),
        scripts=tuple(scripts),
        outcomes=outcomes,
        failing=failing,
    )


def _attempt(patch: RecordedPatch, number: int) -> Attempt:
    clean = not patch.failing
    status = AttemptStatus.TESTS_FAILED
    if clean:
        status = AttemptStatus.PLAUSIBLE
    return Attempt(
        attempt=number,
        model_patch="x" * max(1, patch.size),
        imported=True,
        edit_outcome=True,
        lint_outcome=True,
        test_outcome=clean,
        status=status,
    )


RULES: Mapping[str, Callable[[RecordedInstance], str]] = {
    "lowest number": lambda i: i.least(lambda _: ()),
    "most frequent": lambda i: i.least(lambda patch: (-patch.occurrence,)),
    "regressions, scripts, frequency": lambda i: i.least(
        lambda patch: (patch.failing, -len(patch.passed), -patch.occurrence)
    ),
    "evidence, each patch once": lambda i: i.by_evidence(lambda _: 1),
    "evidence, as often as it was made": lambda i: i.by_evidence(
        lambda patch: patch.occurrence
    ),
    "the authors' newest ranking": lambda i: i.ranked_first,
}


def read_set(root: Path, key: str, logs: str) -> Iterator[RecordedInstance]:
    """Yield the instances of a set that have candidates."""
    occurrences: dict[str, dict[str, int]] = defaultdict(dict)
    labels: dict[tuple[str, str], set[bool]] = defaultdict(set)
    ranked_first: dict[str, str] = {}
    for ranking, right in _rankings(root, key):
        name = ranking["instance_id"]
        pick = _file_name(ranking["selected_patch"])
        for group in ranking["ranked_groups"].values():
            for patch in group:
                occurrences[name][_file_name(patch)] = patch["occurrence"]
        ranked_first[name] = pick
        labels[name, pick].add(right)
    paths = (root / logs / "results").glob("*_inner_results.json")
    for path in sorted(paths):
        name = path.name.removesuffix("_inner_results.json")
        folder = root / "all_patches" / f"{key}_all_unique_patches" / name
        candidates = _candidates(path, folder, occurrences[name])
        # Candidates of one text share labels; rankings that contradict each other give none.
        labels_of_text: dict[str, set[bool]] = defaultdict(set)
        for candidate in candidates:
            labels_of_text[candidate.text] |= labels[name, candidate.name]
        clear = {}
        for candidate in candidates:
            labels_of_candidate = labels_of_text[candidate.text]
            if len(labels_of_candidate) == 1:
                (clear[candidate.name],) = labels_of_candidate
        if candidates:
            by_name = {candidate.name: candidate for candidate in candidates}
            yield RecordedInstance(by_name, clear, ranked_first.get(name, ""))


def _file_name(patch: Mapping[str, Any]) -> str:
    return Path(patch["patch_file"]).name


def _rankings(root: Path, key: str) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Yield the set's labelled rankings, oldest first, with the label of the selected patch."""
    files = root.glob("final_*/**/all_repro_rerank_*/ranked.json")
    # The folders' names end with the time.
    for file in sorted(files, key=lambda path: path.parent.name):
        for row in _json(file):
            if "instance_id" not in row:
                continue
            ranking = _json(file.with_name(f"{row['instance_id']}.json"))
            pick = ranking["selected_patch"]
            if pick and f"/{key}_all_unique_patches/" in pick["patch_file"]:
                yield ranking, row["overlap_count"] > 0


def _candidates(
    path: Path,
    folder: Path,
    occurrences: Mapping[str, int],
) -> list[RecordedPatch]:
    """Return the candidates of an instance from its results and the folder of its patches."""
    recorded = _json(path)
    tests: set[str] = set()
    for results_by_file in recorded["regression"].values():
        tests.update(*results_by_file.values())
    regression = _passed_tests(recorded["regression"])
    scripts = _passed_tests(recorded["reproduction"])
    valid = scripts.pop(_VALID, frozenset())
    # One line each.
    patches = {file.name: _json(file) for file in folder.glob("*.jsonl")}
    candidates = []
    for name in sorted({*regression, *scripts, *patches, *occurrences}):
        patch = patches.get(name, {})
        text = patch.get("model_patch", "")
        candidate = RecordedPatch(
            name=name,
            text=text or name,
            size=len(text),
            occurrence=occurrences.get(name) or patch.get("occurrence", 1),
            failing=len(tests - regression.get(name, frozenset())),
            passed=scripts.get(name, frozenset()) & valid,
            number=int(re.sub(r"\D", "", name)),
        )
        candidates.append(candidate)
    return candidates


def _passed_tests(
    outcomes: Mapping[str, Mapping[str, Mapping[str, bool]]],
) -> dict[str, frozenset[str]]:
    passed_by_name = {}
    for path, results_by_file in outcomes.items():
        passed: set[str] = set()
        for results in results_by_file.values():
            passed.update(test for test, ok in results.items() if ok)
        passed_by_name[Path(path).name] = frozenset(passed)
    return passed_by_name


def _lines(title: str, instances: Sequence[RecordedInstance]) -> Iterator[str]:
    yield f"  {f'{title}: {len(instances)}':<34}{_HEAD}"
    for name, rule in RULES.items():
        yield f"  {name:<33}{_cells(rule, instances)}"


def _cells(
    rule: Callable[[RecordedInstance], str], instances: Sequence[RecordedInstance]
) -> str:
    labels: Counter[bool | None] = Counter()
    theirs = []
    for instance in instances:
        pick = rule(instance)
        if not pick:
            continue
        label = instance.labels.get(pick)
        labels[label] += 1
        if label is not None and instance.ranked_first in instance.labels:
            theirs.append(instance.labels[instance.ranked_first])
    right = labels[True]
    labelled = right + labels[False]
    picks = labels.total()
    share = "-"
    interval = Share.compute(right, labelled).interval
    if interval:
        ends = f"{100 * interval.low:.1f}-{100 * interval.high:.1f}"
        share = f"{100 * right / labelled:.1f} % ({ends})"
    low = 100 * right / max(1, picks)
    high = 100 * (right + labels[None]) / max(1, picks)
    return (
        f"{right:>6}{labels[False]:>6}{labels[None]:>6}{len(instances) - picks:>6}"
        f"{share:>24}{f'{low:.1f} to {high:.1f} %':>18}{sum(theirs):>5} of {len(theirs)}"
    )


def share_of_right(
    rule: Callable[[LabelledInstance], MatrixCandidate],
    instances: Sequence[LabelledInstance],
) -> float:
    """Return how many of the choices are right, in percent."""
    right = sum(rule(labelled).id in labelled.right for labelled in instances)
    return 100 * right / len(instances)


def world_lines(count: int, names: Sequence[str], sure: float) -> Iterator[str]:
    """Yield a line for each world."""
    headings = "".join(f"{name:>10}" for name in (*WORLD_RULES, "best rule"))
    yield f"{'world':<20}{headings}{'belief':>10}{'calibration':>13}{'attempts':>10}{'right':>7}"
    for name in names or WORLDS:
        world = WORLDS[name]
        instances = make_instances(world, count, name)
        cells = []
        for rule in WORLD_RULES.values():
            right = share_of_right(rule, instances)
            cells.append(f"{right:10.1f}")
        if world.attempts <= _MOST_FOR_BEST:
            best = share_of_right(BestRule(world).choose, instances)
            cells.append(f"{best:10.1f}")
        else:
            cells.append(f"{'–':>10}")
        share, calibration = believe(instances)
        made, right_when_sure = stop_when_sure(instances, world.attempts, sure)
        yield (
            f"{name:<20}{''.join(cells)}{share:10.1f}  {calibration.in_words(count)}"
            f"{made:8.0f} %{right_when_sure:7.1f}"
        )


def main(
    folder: Annotated[
        str, typer.Argument(help="The checkout, or worlds.", metavar="DIR")
    ],
    count: Annotated[
        int, typer.Option(min=10, help="Generate this many instances of a world.")
    ] = 2000,
    world: Annotated[
        list[str] | None, typer.Option(help="Take this world; repeatable.")
    ] = None,
    sure: Annotated[float, typer.Option(help="The weight that ends attempts.")] = 0.7,
) -> None:
    """Print how often each rule picks a right candidate."""
    if folder == "worlds":
        for line in world_lines(count, world or (), sure):
            print(line, flush=True)
        return
    print_recorded(Path(folder))


def print_recorded(folder: Path) -> None:
    for title, (key, logs) in SETS.items():
        instances = list(read_set(folder, key, logs))
        if not instances:
            raise UserError(
                f"{folder / logs} has no outcomes; give a checkout of the repository"
            )
        told_apart = []
        labels: list[bool] = []
        candidates = 0
        for instance in instances:
            outcomes = {patch.passed for patch in instance.candidates.values()}
            if len(outcomes) > 1:
                told_apart.append(instance)
            labels += instance.labels.values()
            candidates += len(instance.candidates)
        print(
            f"{title}: {candidates} candidates, {len(labels)} labelled, {sum(labels)} right"
        )
        groups = {"instances": instances, "scripts tell candidates apart": told_apart}
        for name, group in groups.items():
            if labels:
                print(*_lines(name, group), sep="\n")
            else:
                print(f"  {name}: {len(group)}")


def _json(path: Path) -> Any:  # noqa: ANN401 - recorded by others
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(Program(module="benchmarks.selection", default=main).main())
