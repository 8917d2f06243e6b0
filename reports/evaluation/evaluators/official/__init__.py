"""The official evaluators by name."""

from __future__ import annotations

from reports.evaluation.evaluators.official.forks import GymTool, LivePythonTool, RebenchTool
from reports.evaluation.evaluators.official.hosted import HostedTool
from reports.evaluation.evaluators.official.live import LiveTool
from reports.evaluation.evaluators.official.multi import MultiTool
from reports.evaluation.evaluators.official.pro import ProTool
from reports.evaluation.evaluators.official.rebench_v2 import RebenchV2Tool
from reports.evaluation.evaluators.official.smith import SmithTool
from reports.evaluation.evaluators.official.tool import OfficialTool

TOOLS: dict[str, type[OfficialTool]] = {
    tool.name: tool
    for tool in (
        ProTool,
        LiveTool,
        LivePythonTool,
        MultiTool,
        RebenchTool,
        RebenchV2Tool,
        GymTool,
        SmithTool,
        HostedTool,
    )
}
