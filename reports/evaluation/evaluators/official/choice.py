"""The official evaluators by name, and those that other packages bring along."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points

from core.errors import UserError
from reports.evaluation.evaluators.official.forks import GymTool, LivePythonTool, RebenchTool
from reports.evaluation.evaluators.official.hosted import HostedTool
from reports.evaluation.evaluators.official.live import LiveTool
from reports.evaluation.evaluators.official.multi import MultiTool
from reports.evaluation.evaluators.official.pro import ProTool
from reports.evaluation.evaluators.official.rebench_v2 import RebenchV2Tool
from reports.evaluation.evaluators.official.smith import SmithTool
from reports.evaluation.evaluators.official.tool import OfficialTool, ToolSettings

GROUP = "swe_retry_harness.evaluators"
"""The entry points: each a function of ``ToolSettings`` that returns an ``OfficialTool``."""

_TOOLS: dict[str, Callable[[ToolSettings], OfficialTool]] = {
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


def official_names() -> list[str]:
    """Return the names of all official evaluators."""
    return [*_TOOLS, *_others()]


def official_tool(name: str, settings: ToolSettings) -> OfficialTool:
    """Return the official evaluator ``name``, one of ``official_names``.

    Raises:
        UserError: its package cannot be loaded.
    """
    if name in _TOOLS:
        return _TOOLS[name](settings)
    known = _others()
    try:
        tool: OfficialTool = known[name].load()(settings)
    except (ImportError, AttributeError, TypeError) as error:
        raise UserError(f"--evaluator {name}: it cannot be loaded: {error}") from error
    return tool


def _others() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
