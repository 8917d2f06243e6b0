"""Gather evidence about the candidates of an instance: classes, scripts, and what they tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from logging import Logger
from pathlib import Path

from bench.attempts.evidence.choice import groups_of, is_close
from bench.attempts.evidence.equality import canonical_key
from bench.attempts.evidence.running import ScriptRunner
from bench.attempts.evidence.scripts import (
    ScriptLanguage,
    distinguishing_prompt,
    language_of_runner,
    script_in,
    script_of_file,
    script_prompt,
)
from bench.attempts.trees import tree_of
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
_MAX_OF_ATTEMPTS = 4
_SOURCES = (ScriptSource.ISSUE, ScriptSource.FILES, ScriptSource.CANDIDATE)
Ask = Callable[[int, str], tuple[str, str]]
"""Asks the model of a number (of ``--models``) one thing; returns its name and its reply."""


@dataclass(frozen=True)
class EvidencePolicy:
    """Whether and how evidence about the candidates of an instance is gathered.

    Attributes:
        base: a checkout of the base commit; None where no evidence is gathered.
        tests: None where nothing can run.
        ask: passes the gate, as every request does.
        models: how many there are to ask.
        max_scripts: that models write before the distinguishing rounds.
        max_rounds: distinguishing rounds.
    """

    instance: Instance
    base: Checkout | None
    tests: RegressionTests | None
    ask: Ask
    models: int
    max_scripts: int
    max_rounds: int
    cache: Path
    log: Logger

    def gather(self, attempts: Sequence[Attempt]) -> Evidence | None:
        """Return the evidence about the candidates in ``attempts``; None where none is wanted.

        Scripts are only written where there are two classes to compare.
        """
        if self.base is None:
            return None
        candidates = []
        for attempt in attempts:
            # Outcomes of the others say nothing about their patches, which are never chosen so.
            if attempt.usable and attempt.status not in NEVER_PLAUSIBLE:
                candidates.append(Candidate(attempt, self.base))
        return _EvidenceGathering(self, candidates).gather()


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


class _EvidenceGathering:
    """Gathers the evidence about the candidates of one instance, once."""

    def __init__(self, policy: EvidencePolicy, candidates: Sequence[Candidate]) -> None:
        self.policy = policy
        self.candidates = candidates
        failing = {}
        for candidate in candidates:
            attempt = candidate.attempt
            if attempt.test_outcome is False:
                failing[attempt.attempt] = len(attempt.failing)
        classes = classes_of(candidates)
        self.evidence = Evidence(classes=classes, failing=failing)

    def gather(self) -> Evidence:
        if len(self.evidence.classes) < 2:
            return self._note(_nothing_to_compare(self.candidates))
        runner = self._make_runner()
        if isinstance(runner, str):
            return self._note(runner)
        try:
            self._collect_scripts(runner.language)
            self._run_scripts(runner)
            self._distinguish(runner)
        except (BudgetUsedError, ReplayExhaustedError, NotRecordedError) as error:
            # The words differ in a replay, so only the log has them.
            self.policy.log.info("evidence: %s", error)
            self._note("not all scripts could be asked for")
            self._run_scripts(runner)
        return self.evidence

    def _change(self, **values: object) -> None:
        self.evidence = self.evidence.model_copy(update=values)

    def _note(self, note: str) -> Evidence:
        self.policy.log.info("evidence: %s", note)
        self._change(note=note)
        return self.evidence

    def _make_runner(self) -> ScriptRunner | str:
        """Return what runs scripts, or why nothing does."""
        policy = self.policy
        if policy.tests is None:
            return "no environment runs scripts for this instance"
        language = language_of_runner(policy.tests.runner)
        if language is None:
            return f"a script alone does not run with {policy.tests.runner.value}"
        edited: dict[str, bytes | None] = {}
        for candidate in self.candidates:
            edited.update(candidate.under_test)
        proven = policy.tests.setup_for(edited)
        if proven.reason:
            return f"scripts would not run the candidates' code: {proven.reason}"
        instance = policy.instance
        return ScriptRunner(
            session=policy.tests.session,
            proven=proven,
            language=language,
            revision=f"{instance.instance_id}:{instance.base_commit}",
            cache=policy.cache,
            seconds=_SECONDS,
            log=policy.log,
        )

    def _collect_scripts(self, language: ScriptLanguage) -> None:
        """Collect the attempts' own scripts, and ask the models for theirs, each with each prompt.

        The model changes from one request to the next, and so does the prompt.
        """
        self._take_scripts_of_attempts(language)
        models = self.policy.models
        for request in range(self.policy.max_scripts):
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
            problem = self.policy.instance.problem_statement
            prompt = script_prompt(language, problem, files, patch)
            self._ask(source, prompt, (request + shift) % models)

    def _ask(self, source: ScriptSource, prompt: str, model: int) -> str:
        """Ask for a script and return its text, empty for a reply without one."""
        name = ""
        text = ""
        note = ""
        try:
            name, reply = self.policy.ask(model, prompt)
        except RequestRefusedError as error:
            self.policy.log.info("evidence: %s", error)
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
    ) -> None:
        scripts = self.evidence.scripts
        if text and text in [script.text for script in scripts]:
            text = ""
            note = "equal to an earlier script"
        script = ReproductionScript(
            id=f"s{len(scripts) + 1}",
            source=source,
            model=model,
            text=text,
            note=note,
        )
        self._change(scripts=(*scripts, script))

    def _take_scripts_of_attempts(self, language: ScriptLanguage) -> None:
        """Take scripts and tests that attempts wrote and that are not predicted."""
        texts: list[str] = []
        for candidate in self.candidates:
            if len(texts) < _MAX_OF_ATTEMPTS:
                text = self._script_of_attempt(candidate, language, texts)
                if text:
                    self._add(ScriptSource.ATTEMPT, candidate.attempt.model, text)
                    texts.append(text)

    def _script_of_attempt(
        self,
        candidate: Candidate,
        language: ScriptLanguage,
        earlier: Sequence[str],
    ) -> str:
        """Return the first new script among the files that are not predicted."""
        assert self.policy.tests is not None
        attempt = candidate.attempt
        if not attempt.dropped_files:
            return ""
        tree = tree_of(candidate.base, attempt.model_patch) or {}
        for path in attempt.dropped_files:
            data = tree.get(path)
            if data:
                text = script_of_file(language, self.policy.tests.runner, path, data)
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
        outcomes: dict[str, dict[str, int | None]] = {}
        for script in valid:
            outcomes[script.id] = {}
        classes: Sequence[CandidateClass] = ()
        if valid:
            classes = self.evidence.classes
        passes = 0
        for candidates in classes:
            first = self._first_of(candidates)
            for name, codes in runner.run(first.under_test, valid).items():
                outcomes[name][candidates.id] = codes[0]
                passes += codes[0] == SOLVED
        self._change(scripts=tuple(scripts), outcomes=outcomes)
        self.policy.log.info(
            "evidence: %d of %d scripts are valid, %d classes, %d passes",
            len(valid),
            len(scripts),
            len(self.evidence.classes),
            passes,
        )

    def _distinguish(self, runner: ScriptRunner) -> None:
        """Ask for scripts that tell the two best groups apart, while they are close."""
        compared: set[tuple[str, str]] = set()
        for number in range(1, self.policy.max_rounds + 1):
            groups = groups_of(self.evidence)
            if not is_close(groups):
                return
            first = groups[0].classes[0]
            second = groups[1].classes[0]
            if (first.id, second.id) in compared:
                return
            compared.add((first.id, second.id))
            prompt = distinguishing_prompt(
                runner.language,
                self.policy.instance.problem_statement,
                self._first_of(first).attempt.patch,
                self._first_of(second).attempt.patch,
            )
            model = (self.policy.models - number) % self.policy.models
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
