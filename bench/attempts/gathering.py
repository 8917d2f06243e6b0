"""Gather evidence about the candidates of an instance: classes, scripts, and what they tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from logging import Logger
from pathlib import Path

from bench.attempts.evidence import canonical_key, groups_of, is_close
from bench.attempts.predicted import base_reader, tree_of
from bench.attempts.scripts import (
    ScriptLanguage,
    ScriptRunner,
    distinguishing_prompt,
    language_of_runner,
    script_in,
    script_of_file,
    script_prompt,
)
from bench.instances.instance import Instance
from bench.regression.suite import RegressionTests
from bench.regression.testconfig import tree_under_test
from bench.repos.checkout import Checkout
from core.worktree import Changes
from llm.chat import (
    BudgetUsedError,
    ReplayExhaustedError,
    RequestRefusedError,
)
from runs.evidence import (
    SOLVED,
    CandidateClass,
    Evidence,
    ReproductionScript,
    ScriptSource,
)
from runs.modelsource import NotRecordedError
from runs.records import NEVER_PLAUSIBLE, Attempt

_SECONDS = 120.0
_OWN_SCRIPTS = 4  # of all attempts
_SOURCES = (ScriptSource.ISSUE, ScriptSource.FILES, ScriptSource.CANDIDATE)
Ask = Callable[[int, str], tuple[str, str]]
"""Asks the model of a number (of ``--models``) one thing; returns its name and its reply."""


@dataclass
class EvidenceGatherer:
    """Gathers the evidence about the candidates of an instance, once.

    Attributes:
        tests: None where nothing can run.
        ask: passes the gate, as every request does.
        models: how many there are to ask.
        most_scripts: that models write before the distinguishing rounds.
        most_rounds: distinguishing rounds.
    """

    instance: Instance
    base: Checkout
    tests: RegressionTests | None
    ask: Ask
    models: int
    most_scripts: int
    most_rounds: int
    cache: Path
    log: Logger
    evidence: Evidence = field(default_factory=Evidence)
    _trees: dict[int, tuple[str, Changes]] = field(default_factory=dict)

    def gather(self, records: Sequence[Attempt]) -> Evidence:
        """Return what is known of the candidates in ``records``.

        Scripts are only written where there are two classes to compare.
        """
        fit = [one for one in records if one.usable]
        # Outcomes of the others say nothing about their patches, which are never chosen so.
        usable = [one for one in fit if one.status not in NEVER_PLAUSIBLE]
        classes = self.classes(usable)
        failed = [one for one in usable if one.test_outcome is False]
        failing = {one.attempt: len(one.failing) for one in failed}
        self.evidence = Evidence(classes=classes, failing=failing)
        if len(classes) < 2:
            same = (
                "all candidates are equal"
                if len(usable) > 1
                else "there is one candidate"
            )
            return self._noted(same if usable else "there is no candidate")
        runner = self._runner()
        if isinstance(runner, str):
            return self._noted(runner)
        try:
            self._write(usable, runner.language)
            self._run(runner)
            self._distinguish(usable, runner)
        except (BudgetUsedError, ReplayExhaustedError, NotRecordedError) as error:
            # The words differ in a replay, so only the log has them.
            self.log.info("evidence: %s", error)
            self._noted("not all scripts could be asked for")
            self._run(runner)
        return self.evidence

    def _noted(self, words: str) -> Evidence:
        self.log.info("evidence: %s", words)
        self.evidence = self.evidence.model_copy(update={"note": words})
        return self.evidence

    def classes(self, records: Sequence[Attempt]) -> tuple[CandidateClass, ...]:
        """Return the classes of equal candidates, in the order of their first attempts."""
        found: dict[str, list[Attempt]] = {}
        for one in records:
            found.setdefault(self._tree(one)[0], []).append(one)
        return tuple(
            CandidateClass(
                id=f"c{members[0].attempt}",
                attempts=tuple(one.attempt for one in members),
                models=tuple(dict.fromkeys(one.model for one in members)),
            )
            for members in found.values()
        )

    def _tree(self, record: Attempt) -> tuple[str, Changes]:
        """Return the key of a candidate's class, and its changes without test configuration."""
        number = record.attempt
        if number not in self._trees:
            files = tree_of(self.base, record.patch) or {}
            read = base_reader(self.base)
            tested = tree_under_test(files, self.base.tracked_files(), read).changes
            self._trees[number] = canonical_key(files, read), tested
        return self._trees[number]

    def _runner(self) -> ScriptRunner | str:
        """Return what runs scripts, or why nothing does."""
        if self.tests is None:
            return "no environment runs scripts for this instance"
        language = language_of_runner(self.tests.runner)
        if language is None:
            return f"a script alone does not run with {self.tests.runner.value}"
        edited = {
            path: data
            for _, tree in self._trees.values()
            for path, data in tree.items()
        }
        proven = self.tests.setup_for(edited)
        if proven.reason:
            return f"scripts would not run the candidates' code: {proven.reason}"
        revision = f"{self.instance.instance_id}:{self.instance.base_commit}"
        return ScriptRunner(
            self.tests.session,
            proven,
            language,
            revision,
            self.cache,
            _SECONDS,
            self.log,
        )

    def _write(self, usable: Sequence[Attempt], language: ScriptLanguage) -> None:
        """Collect the attempts' own scripts, and ask the models for theirs, each with each prompt.

        The model changes from one request to the next, and so does the prompt.
        """
        for one in usable:
            self._take_own(one, language)
        count = self.models
        for asked in range(self.most_scripts):
            round_, nth = divmod(asked, len(_SOURCES))
            # A model is not always to have the same prompt.
            shift = asked // count if count % len(_SOURCES) == 0 else 0
            source = _SOURCES[nth]
            files, patch = {}, ""
            if source is ScriptSource.FILES:
                files = self._shown(usable)
            elif source is ScriptSource.CANDIDATE:
                shown = self.evidence.classes[round_ % len(self.evidence.classes)]
                patch = _patch(usable, shown)
            prompt = script_prompt(
                language, self.instance.problem_statement, files, patch
            )
            self._add(source, prompt, (asked + shift) % count)

    def _add(self, source: ScriptSource, prompt: str, model: int) -> str:
        """Ask for a script and return its text, empty for a reply without one."""
        name, text, note = "", "", ""
        try:
            name, reply = self.ask(model, prompt)
            text = script_in(reply)
            note = "" if text else "the reply holds no script"
        except RequestRefusedError as error:
            self.log.info("evidence: %s", error)
            note = "the provider refuses the request"
        self._keep(
            ReproductionScript(id="", source=source, model=name, text=text, note=note)
        )
        return text

    def _keep(self, script: ReproductionScript) -> None:
        known = self.evidence.scripts
        if script.text and script.text in (one.text for one in known):
            script = script.model_copy(
                update={"text": "", "note": "equal to an earlier script"}
            )
        named = script.model_copy(update={"id": f"s{len(known) + 1}"})
        self.evidence = self.evidence.model_copy(update={"scripts": (*known, named)})

    def _take_own(self, record: Attempt, language: ScriptLanguage) -> None:
        """Take scripts and tests that the attempt wrote and that are not predicted."""
        assert self.tests is not None
        own = [
            one for one in self.evidence.scripts if one.source is ScriptSource.ATTEMPT
        ]
        if not record.dropped_files or len(own) >= _OWN_SCRIPTS:
            return
        tree = tree_of(self.base, record.model_patch) or {}
        for path in record.dropped_files:
            data = tree.get(path)
            text = (
                script_of_file(language, self.tests.runner, path, data) if data else ""
            )
            if text and text not in (one.text for one in own):
                self._keep(
                    ReproductionScript(
                        id="",
                        source=ScriptSource.ATTEMPT,
                        model=record.model,
                        text=text,
                    )
                )
                return  # one of each attempt

    def _shown(self, usable: Sequence[Attempt]) -> dict[str, str]:
        """Return the base texts of files that candidates edit, and of those that attempts saw."""
        read = base_reader(self.base)
        names = dict.fromkeys(path for one in usable for path in self._tree(one)[1])
        names |= dict.fromkeys(path for one in usable for path in one.added_files)
        return {path: text for path in names if (text := read(path)) is not None}

    def _run(self, runner: ScriptRunner) -> None:
        """Run new scripts at the base commit, and valid ones on classes that they did not see."""
        new = [one for one in self.evidence.scripts if one.text and not one.base]
        base = runner.run({}, new, times=2) if new else {}
        scripts = tuple(
            one.model_copy(update={"base": base[one.id]}) if one.id in base else one
            for one in self.evidence.scripts
        )
        valid = [one for one in scripts if one.valid]
        outcomes: dict[str, dict[str, int | None]] = {one.id: {} for one in valid}
        for kind in self.evidence.classes if valid else ():
            _, changes = self._trees[kind.attempts[0]]
            for name, codes in runner.run(changes, valid).items():
                outcomes[name][kind.id] = codes[0]
        self.evidence = self.evidence.model_copy(
            update={"scripts": scripts, "outcomes": outcomes}
        )
        passed = [
            sum(code == SOLVED for code in found.values())
            for found in outcomes.values()
        ]
        self.log.info(
            "evidence: %d of %d scripts are valid, %d classes, %d passes",
            len(valid),
            len(scripts),
            len(self.evidence.classes),
            sum(passed),
        )

    def _distinguish(self, usable: Sequence[Attempt], runner: ScriptRunner) -> None:
        """Ask for scripts that tell the two best groups apart, while they are close."""
        compared: set[tuple[str, str]] = set()
        for number in range(1, self.most_rounds + 1):
            groups = groups_of(self.evidence)
            if not is_close(groups):
                return
            one, two = (group.classes[0] for group in groups[:2])
            if (one.id, two.id) in compared:
                return
            compared.add((one.id, two.id))
            first, second = _patch(usable, one), _patch(usable, two)
            prompt = distinguishing_prompt(
                runner.language, self.instance.problem_statement, first, second
            )
            model = (self.models - number) % self.models
            if not self._add(ScriptSource.DISTINGUISHING, prompt, model):
                return
            self._run(runner)


def _patch(usable: Sequence[Attempt], kind: CandidateClass) -> str:
    return next(one.patch for one in usable if one.attempt == kind.attempts[0])
