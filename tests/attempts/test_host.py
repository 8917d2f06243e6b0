"""The host of an attempt of a run, and its checkouts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from swe_retry.agent.conversation.limits import ConversationLimits
from swe_retry.agent.conversation.testreport import Failure
from swe_retry.agent.lint.linter import Linter
from swe_retry.agent.protocol import AgentResult
from swe_retry.attempts.checkouts import Checkouts
from swe_retry.attempts.config import ModelChoice, RunConfig
from swe_retry.attempts.history import Briefing
from swe_retry.attempts.outcomes import TreeChecks, check_outcomes
from swe_retry.attempts.solve import AttemptWork
from swe_retry.core.errors import StoppedError
from swe_retry.core.shutdown import Shutdown
from swe_retry.llm.chat import Message, Reply
from swe_retry.llm.gate import OpenGate
from swe_retry.llm.replay import ReplayModel
from swe_retry.record.records import Attempt
from swe_retry.repositories.checkout import Checkout
from swe_retry.runner.modelsource import Turn
from swe_retry.runner.progress.state import WorkStep
from swe_retry.runner.slots import Slot, Slots, waiting_for_model
from swe_retry.testing.suite import SuiteReport
from swe_retry.testing.testconfig import TestCommand
from tests.fixtures import MakeCheckout


@dataclass
class Suite:
    """Tests with a fixed report, which note the trees that they run on."""

    report: SuiteReport
    trees: list[Any] = field(default_factory=list)

    @property
    def test_files(self) -> Any:
        return SimpleNamespace(configuration=TestCommand())

    def run(self, changes: Any) -> SuiteReport:
        self.trees.append(changes)
        return self.report


@dataclass
class World:
    """A host with the slots and the steps that it uses."""

    checkout: Checkout
    suite: Suite | None = None
    slots: Slots = field(default_factory=lambda: Slots(1))
    steps: list[WorkStep] = field(default_factory=list)
    tested: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slot = Slot(self.slots)
        self.stop = Shutdown()
        folder = self.checkout.root.parent
        self.checkouts = Checkouts(self.checkout.snapshot, folder)
        tools: Any = SimpleNamespace(
            services=SimpleNamespace(
                config=RunConfig(models=(ModelChoice.parse("m", any_name=True),))
            ),
            context=SimpleNamespace(
                slot=self.slot,
                worker=SimpleNamespace(stop=self.stop),
                step=lambda attempt, model, step: self.steps.append(step),
                gate=lambda *_: OpenGate(),
            ),
            checkouts=self.checkouts,
            draw_map=lambda root, turn: "the map",
            linter=Linter(),
            tests=self.suite,
            untestable="",
        )
        self.checks = TreeChecks(
            self.checkout, tools, lambda: self.tested.append("before")
        )
        self.host = AttemptWork(tools, 1, self.checkout, Briefing(), print)
        model = ReplayModel(())
        self.host.__dict__.update(checks=self.checks, turn=Turn(model, "m", "diff"))


BASE: dict[str, bytes | str] = {
    "a.py": "x = 1\n",
    "tests/test_a.py": "",
}


def test_others_have_the_slot_while_an_agent_waits(make_tree: MakeCheckout) -> None:
    world = World(make_tree(BASE))
    reply = Reply("one")

    class Model(ReplayModel):
        def _serve(self, sha256: str) -> Reply:
            with Slot(world.slots):
                return reply

    with world.slot:
        settle = world.checkout.settle
        steps = world.steps.append
        waiting = partial(waiting_for_model, world.slot, steps, settle)
        model = Turn(Model(()), "m", "diff").with_waiting(waiting).model
        messages = [Message("user", "x")]
        assert model.complete(messages) == reply
        assert world.steps == [WorkStep.ASKING, WorkStep.EDITING]
        with world.host.let_others_work(), Slot(world.slots):
            assert world.steps[2:] == [WorkStep.STARTING]
    world.host.note_call()
    assert world.steps[3:] == [WorkStep.ASKING]
    assert world.host.draw_map() == "the map"
    assert isinstance(world.host.open_gate(), OpenGate)


def test_a_forced_shutdown_ends_what_it_killed(make_tree: MakeCheckout) -> None:
    world = World(make_tree(BASE))
    world.stop.request("the run is stopped")
    world.host.check_killed()
    world.stop.at_once = True
    with pytest.raises(StoppedError):
        world.host.check_killed()


def test_a_review_names_lint_then_tests_then_nothing(make_tree: MakeCheckout) -> None:
    tree = make_tree(BASE)
    failure = Failure("tests/test_a.py::test", "boom")
    suite = Suite(SuiteReport(False, (failure,)))
    world = World(tree, suite)
    assert world.host.review_tree() == "", "an unchanged tree has no problem"
    (tree.root / "a.py").write_text("def broken(\n")
    assert "def broken(" in world.host.review_tree()
    assert not suite.trees, "tests do not run on what the linter refuses"
    (tree.root / "a.py").write_text("x = 2\n")
    assert "boom" in world.host.review_tree()
    assert suite.trees == [{"a.py": b"x = 2\n"}]
    assert world.tested == ["before"]
    suite.report = SuiteReport(None, untested="no test ran")
    assert world.host.review_tree() == ""
    assert world.checks.reports[-1].untested == "no test ran"


def test_a_tree_that_is_gone_has_no_review(make_tree: MakeCheckout) -> None:
    tree = make_tree(BASE)
    world = World(tree, Suite(SuiteReport(False)))
    tree.root.rename(tree.root.with_name("elsewhere"))
    assert world.host.review_tree() == ""


def test_only_what_the_harness_wrote_to_is_renewed(make_tree: MakeCheckout) -> None:
    snapshot = make_tree(BASE).snapshot
    folder = snapshot.folder.parent / "attempts"
    folder.mkdir()
    checkouts = Checkouts(snapshot, folder)
    first = checkouts.make_fresh(1)
    first.settle()
    (first.root / "a.py").write_text("x = 2\n")
    checkouts.allow_reuse()
    second = checkouts.make_fresh(2)
    assert second.root == first.root
    assert (second.root / "a.py").read_text() == "x = 1\n"
    third = checkouts.make_fresh(3)
    assert third.root != second.root, "the permission is one of the second attempt"
    assert not second.root.exists()
    assert (third.root / "a.py").read_text() == "x = 1\n"


def test_an_attempt_whose_tests_did_not_run_has_no_mark_of_others(
    make_tree: MakeCheckout,
) -> None:
    """Neither of the attempt before it, nor of its own trees before the last."""

    def check(text: str, world: World) -> Attempt:
        (tree.root / "a.py").write_text(text)
        result = AgentResult()
        limits = ConversationLimits()
        return check_outcomes(Attempt(), result, world.checks, limits, print)

    report = SuiteReport(None, untested="it forges", note="flaky", suspect=True)
    suite = Suite(report)
    tree = make_tree(BASE)

    suspect = check("x = 2\n", World(tree, suite))
    assert suspect.edits_test_configuration is False, "it edits a source alone"
    assert suspect.tests_doubted is True
    assert suspect.suspect
    assert suspect.untested == "it forges"

    broken = check("x = (\n", World(tree, suite))
    assert broken.edits_test_configuration is False
    assert broken.tests_doubted is False
    assert broken.untested == ""

    world = World(tree, suite)
    suspect = check("y = 1\n", world)
    assert suspect.tests_doubted is True
    assert suspect.untested == "it forges"

    # The last tree of an attempt whose earlier tree was suspect.
    broken = check("x = (\n", world)
    assert broken.lint_outcome is False
    assert broken.tests_doubted is False
    assert broken.untested == ""
    assert broken.test_note == ""
