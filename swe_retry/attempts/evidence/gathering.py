"""Gather evidence about the candidates of an instance: classes, scripts, and what they tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from logging import Logger

from swe_retry.attempts.evidence.choice import weigh_classes
from swe_retry.attempts.evidence.equality import canonical_key
from swe_retry.attempts.evidence.facts import stated_fit
from swe_retry.attempts.evidence.running import ScriptRunner
from swe_retry.attempts.evidence.scripts import (
    ScriptLanguage,
    distinguishing_prompt,
    language_of_runner,
    script_in,
    script_of_file,
    script_prompt,
)
from swe_retry.attempts.policy import ChoiceSettings
from swe_retry.attempts.prepare import InstanceTools
from swe_retry.attempts.trees import tree_of
from swe_retry.core.worktree import Changes
from swe_retry.llm.chat import (
    BudgetUsedError,
    ReplayExhaustedError,
    RequestRefusedError,
)
from swe_retry.record.evidence import (
    SOLVED,
    BeliefFit,
    CandidateClass,
    Evidence,
    ReproductionScript,
    ScriptSource,
)
from swe_retry.record.records import NEVER_PLAUSIBLE, Attempt
from swe_retry.repositories.checkout import Checkout
from swe_retry.runner.modelsource import NotRecordedError
from swe_retry.testing.suite import RegressionTests
from swe_retry.testing.testconfig import tree_under_test

_SECONDS = 120.0
_MAX_OF_ATTEMPTS = 4
_MIN_GAIN = 0.005
_SOURCES = (ScriptSource.ISSUE, ScriptSource.FILES, ScriptSource.CANDIDATE)
Ask = Callable[[int, str], tuple[str, str]]
"""Asks the model of a number (of ``--models``) one thing; returns its name and its reply."""


@dataclass(frozen=True)
class Candidate:
    """An attempt with the tree that its patch makes of the base commit."""

    attempt: Attempt
    base: Checkout

    @cached_property
    def changes(self) -> Changes:
        return tree_of(self.base, self.attempt.patch) or {}

    @cached_property
    def key(self) -> str:
        """What candidates of one class have in common."""
        return canonical_key(self.changes, self.base.read_base)

    @cached_property
    def under_test(self) -> Changes:
        """The changes without test configuration."""
        files = self.base.tracked_files()
        return tree_under_test(self.changes, files, self.base.read_base).changes


@dataclass
class EvidenceGathering:
    """Gathers the evidence about the candidates of one instance, as attempts are made.

    Attributes:
        ask: passes the gate, as every request does.
        stop_fit: what the belief takes as given where it decides whether another attempt is made;
            None for what is stated.
    """

    tools: InstanceTools
    ask: Ask
    stop_fit: BeliefFit | None
    candidates: list[Candidate] = field(default_factory=list)
    evidence: Evidence = field(default_factory=Evidence)
    _asked: bool = False
    _needs_scripts: bool = False
    _searched: set[int] = field(default_factory=set)
    _trees: dict[tuple[int, str], Candidate] = field(default_factory=dict)

    @property
    def choice(self) -> ChoiceSettings:
        return self.tools.services.config.settings.choice

    @property
    def tests(self) -> RegressionTests | None:
        """The tests whose session runs scripts; None where no script runs."""
        if not self.tools.services.config.by_evidence:
            return None
        return self.tools.tests

    @property
    def log(self) -> Logger:
        return self.tools.context.log

    @cached_property
    def fit(self) -> BeliefFit:
        """What the belief about the candidates takes as given."""
        return stated_fit(self.choice.right)

    def greatest_weight(self, attempts: Sequence[Attempt]) -> float:
        """Return the weight of the class that is most likely right, with what is known so far."""
        weight = self._weigh(attempts)
        if weight >= self.choice.sure and len(self.evidence.classes) == 1:
            # Agreement alone would end the attempts, and scripts may know better.
            self._needs_scripts = True
            weight = self._weigh(attempts)
        return weight

    def _weigh(self, attempts: Sequence[Attempt]) -> float:
        evidence = self._gather(attempts)
        if not evidence.classes:
            return 0.0
        return weigh_classes(evidence, attempts, self.stop_fit or self.fit).greatest

    def gather(self, attempts: Sequence[Attempt]) -> Evidence:
        """Return the evidence about the candidates in ``attempts``, with all scripts.

        Scripts are only written where there are two classes to compare, or where one ends the
        attempts.
        """
        return self._gather(attempts, is_last=True)

    def _gather(
        self, attempts: Sequence[Attempt], *, is_last: bool = False
    ) -> Evidence:
        self._add_candidates(attempts)
        classes = len(self.evidence.classes)
        if not classes or (classes == 1 and not self._needs_scripts):
            return self._note(_nothing_to_compare(self.candidates))
        if self.tests is None:
            return self._note("no environment runs scripts for this instance")
        runner = self._make_runner(self.tests)
        if isinstance(runner, str):
            return self._note(runner)
        self._change(note="")
        try:
            self._take_scripts_of_attempts(runner.language)
            if not self._asked:
                self._asked = True
                self._ask_for_scripts(runner.language)
            self._run_scripts(runner)
            if is_last and classes > 1:
                self._distinguish(runner)
        except (BudgetUsedError, ReplayExhaustedError, NotRecordedError) as error:
            # The words differ in a replay, so only the log has them.
            self.log.info("evidence: %s", error)
            self._note("not all scripts could be asked for")
            self._run_scripts(runner)
        return self.evidence

    def _add_candidates(self, attempts: Sequence[Attempt]) -> None:
        """Add what is new in ``attempts``, and read the outcomes of all again."""
        base = self.tools.base
        assert base is not None
        self.candidates = []
        failing = {}
        for attempt in attempts:
            # Outcomes of the others say nothing about their patches, which are never chosen so.
            if not attempt.usable or attempt.status in NEVER_PLAUSIBLE:
                continue
            key = (attempt.attempt, attempt.patch)
            if key not in self._trees:
                self._trees[key] = Candidate(attempt, base)
            self.candidates.append(self._trees[key])
            if attempt.test_outcome is False:
                failing[attempt.attempt] = len(attempt.failing)
        self._change(classes=classes_of(self.candidates), failing=failing)

    def _change(self, **values: object) -> None:
        self.evidence = self.evidence.model_copy(update=values)

    def _note(self, note: str) -> Evidence:
        self.log.info("evidence: %s", note)
        self._change(note=note)
        return self.evidence

    def _make_runner(self, tests: RegressionTests) -> ScriptRunner | str:
        """Return what runs scripts, or why nothing does."""
        language = language_of_runner(tests.runner)
        if language is None:
            return f"a script alone does not run with {tests.runner.value}"
        edited: dict[str, bytes | None] = {}
        for candidate in self.candidates:
            edited.update(candidate.under_test)
        proven = tests.setup_for(edited)
        if proven.reason:
            return f"scripts would not run the candidates' code: {proven.reason}"
        instance = self.tools.instance
        return ScriptRunner(
            session=tests.session,
            proven=proven,
            language=language,
            revision=f"{instance.instance_id}:{instance.base_commit}",
            cache=self.tools.context.worker.cache / "scripts",
            seconds=_SECONDS,
            log=self.log,
        )

    def _ask_for_scripts(self, language: ScriptLanguage) -> None:
        """Ask each model with each prompt.

        The model changes from one request to the next, and so does the prompt.
        """
        models = len(self.tools.services.config.models)
        for request in range(self.choice.scripts):
            # A model is not always to have the same prompt.
            shift = 0
            if models % len(_SOURCES) == 0:
                shift = request // models
            source = _SOURCES[request % len(_SOURCES)]
            files: Mapping[str, str] = {}
            patch = ""
            if source is ScriptSource.FILES:
                files = self._files_to_show()
            elif source is ScriptSource.CANDIDATE:
                classes = self.evidence.classes
                round_number = request // len(_SOURCES)
                example = classes[round_number % len(classes)]
                patch = self._first_of(example).attempt.patch
            problem = self.tools.instance.problem_statement
            prompt = script_prompt(language, problem, files, patch)
            self._ask(source, prompt, (request + shift) % models)

    def _ask(self, source: ScriptSource, prompt: str, model: int) -> str:
        """Ask for a script and return its text, empty for a reply without one."""
        name = ""
        text = ""
        note = ""
        try:
            name, reply = self.ask(model, prompt)
        except RequestRefusedError as error:
            self.log.info("evidence: %s", error)
            note = "the provider refuses the request"
        else:
            text = script_in(reply)
            if not text:
                note = "the reply holds no script"
        self._add(source, name, text, note)
        return text

    def _add(
        self,
        source: ScriptSource,
        model: str,
        text: str,
        note: str = "",
        author: int | None = None,
    ) -> None:
        scripts = self.evidence.scripts
        if text and text in [script.text for script in scripts]:
            text = ""
            note = "equal to an earlier script"
        script = ReproductionScript(
            id=f"s{len(scripts) + 1}",
            source=source,
            model=model,
            author=author,
            text=text,
            note=note,
        )
        self._change(scripts=(*scripts, script))

    def _take_scripts_of_attempts(self, language: ScriptLanguage) -> None:
        """Take scripts and tests of new attempts that they wrote and that are not predicted."""
        texts = [script.text for script in self._scripts_of_attempts]
        for candidate in self.candidates:
            number = candidate.attempt.attempt
            if len(texts) >= _MAX_OF_ATTEMPTS or number in self._searched:
                continue
            self._searched.add(number)
            text = self._script_of_attempt(candidate, language, texts)
            if text:
                model = candidate.attempt.model
                self._add(ScriptSource.ATTEMPT, model, text, author=number)
                texts.append(text)

    @property
    def _scripts_of_attempts(self) -> list[ReproductionScript]:
        scripts = []
        for script in self.evidence.scripts:
            if script.source is ScriptSource.ATTEMPT:
                scripts.append(script)
        return scripts

    def _script_of_attempt(
        self,
        candidate: Candidate,
        language: ScriptLanguage,
        earlier: Sequence[str],
    ) -> str:
        """Return the first new script among the files that are not predicted."""
        assert self.tests is not None
        attempt = candidate.attempt
        if not attempt.dropped_files:
            return ""
        tree = tree_of(candidate.base, attempt.model_patch) or {}
        for path in attempt.dropped_files:
            data = tree.get(path)
            if data:
                text = script_of_file(language, self.tests.runner, path, data)
                if text and text not in earlier:
                    return text
        return ""

    def _files_to_show(self) -> Mapping[str, str]:
        """Return the base texts of files that candidates edit, and of those that attempts saw."""
        paths: dict[str, None] = {}
        for candidate in self.candidates:
            paths |= dict.fromkeys(candidate.under_test)
        for candidate in self.candidates:
            paths |= dict.fromkeys(candidate.attempt.added_files)
        texts = {}
        for path in paths:
            text = self.candidates[0].base.read_base(path)
            if text is not None:
                texts[path] = text
        return texts

    def _run_scripts(self, runner: ScriptRunner) -> None:
        """Run new scripts at the base commit, and valid ones on classes that they did not see."""
        new = []
        for script in self.evidence.scripts:
            if script.text and not script.base:
                new.append(script)
        base = runner.run({}, new, times=2) if new else {}
        scripts = []
        for script in self.evidence.scripts:
            if script.id in base:
                script = script.model_copy(update={"base": base[script.id]})
            scripts.append(script)
        valid = [script for script in scripts if script.valid]
        outcomes = {}
        for script in valid:
            codes_before = self.evidence.outcomes.get(script.id, {})
            outcomes[script.id] = dict(codes_before)
        for candidates in self.evidence.classes:
            # What ran once does not run again: a script that hangs takes minutes.
            missing = [s for s in valid if candidates.id not in outcomes[s.id]]
            if missing:
                first = self._first_of(candidates)
                for name, codes in runner.run(first.under_test, missing).items():
                    outcomes[name][candidates.id] = codes[0]
        passes = 0
        for codes_by_class in outcomes.values():
            passes += list(codes_by_class.values()).count(SOLVED)
        self._change(scripts=tuple(scripts), outcomes=outcomes)
        self.log.info(
            "evidence: %d of %d scripts are valid, %d classes, %d passes",
            len(valid),
            len(scripts),
            len(self.evidence.classes),
            passes,
        )

    def _distinguish(self, runner: ScriptRunner) -> None:
        """Ask for scripts that tell two classes apart, while that can move the choice."""
        compared: set[tuple[str, str]] = set()
        attempts = [candidate.attempt for candidate in self.candidates]
        for number in range(1, self.choice.rounds + 1):
            weights = weigh_classes(self.evidence, attempts, self.fit)
            gain, best, other = weights.hardest_pair()
            if gain < _MIN_GAIN:
                return
            first = self.evidence.classes[best]
            second = self.evidence.classes[other]
            if (first.id, second.id) in compared:
                return
            compared.add((first.id, second.id))
            prompt = distinguishing_prompt(
                runner.language,
                self.tools.instance.problem_statement,
                self._first_of(first).attempt.patch,
                self._first_of(second).attempt.patch,
            )
            models = len(self.tools.services.config.models)
            model = (models - number) % models
            if not self._ask(ScriptSource.DISTINGUISHING, prompt, model):
                return
            self._run_scripts(runner)

    def _first_of(self, candidates: CandidateClass) -> Candidate:
        for candidate in self.candidates:
            if candidate.attempt.attempt == candidates.attempts[0]:
                return candidate
        raise LookupError(candidates.id)


def _nothing_to_compare(candidates: Sequence[Candidate]) -> str:
    if not candidates:
        return "there is no candidate"
    if len(candidates) == 1:
        return "there is one candidate"
    return "all candidates are equal"


def classes_of(candidates: Sequence[Candidate]) -> tuple[CandidateClass, ...]:
    """Return the classes of equal candidates, in the order of their first attempts."""
    members: dict[str, list[Attempt]] = defaultdict(list)
    for candidate in candidates:
        members[candidate.key].append(candidate.attempt)
    classes = []
    for attempts in members.values():
        models = dict.fromkeys(attempt.model for attempt in attempts)
        candidates_of_class = CandidateClass(
            id=f"c{attempts[0].attempt}",
            attempts=tuple(attempt.attempt for attempt in attempts),
            models=tuple(models),
        )
        classes.append(candidates_of_class)
    return tuple(classes)
