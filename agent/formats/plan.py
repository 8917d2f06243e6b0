"""The format of a plan: a reply that another model turns into edits."""

from __future__ import annotations

from collections.abc import Sequence

from swe_retry.agent.formats.apply import EngineFormat
from swe_retry.agent.formats.edits import Edit
from swe_retry.agent.formats.protocol import ReplyScope, Sample
from swe_retry.llm.chat import Reply


class PlanFormat(EngineFormat):
    """Keeps the last reply as ``plan``: nothing in it is an edit."""

    name = "plan"
    plans = True

    def __init__(self, rules: str = "") -> None:
        self.rules = rules
        self.plan = ""

    def instructions(self, fence: str, sample: Sample | None = None) -> str:
        return self.rules

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        self.plan = reply.content
        return ()
