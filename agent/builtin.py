"""The built-in agent: a conversation of ``Coder`` with a model about a workspace."""

from __future__ import annotations

from dataclasses import dataclass

from agent.conversation.checks import Checks
from agent.conversation.coder import Coder
from agent.conversation.outcomes import Ending
from agent.formats import get_format
from agent.protocol import Task, Work
from agent.workspace import Workspace
from core.worktree import Changes
from llm.chat import BudgetUsedError, RequestRefusedError, TimeUsedError


@dataclass(frozen=True)
class BuiltinAgent:
    """Runs one conversation of ``Coder`` for each attempt."""

    def work(self, task: Task) -> Work:
        """See ``Agent``."""
        workspace = Workspace(task.root, submodules=task.submodules)
        run_tests = task.run_tests
        run = (lambda: run_tests(_changes(workspace))) if run_tests else None
        coder = Coder(
            workspace=workspace,
            files=task.files,
            model=task.model,
            edit_format=get_format(task.edit_format, task.matching),
            checks=Checks(workspace, task.linter, run),
            limits=task.limits,
            on_failure=task.on_failure,
        )
        try:
            return Work(coder.run(task.message, task.repo_map))
        except RequestRefusedError as error:
            # The edits before the refusal are still a candidate.
            return Work(coder.result(Ending.REFUSED), str(error))
        except BudgetUsedError as error:
            late = isinstance(error, TimeUsedError)
            return Work(coder.result(Ending.TIME if late else Ending.BUDGET), str(error))
        finally:
            task.transcript.messages[:] = coder.messages
            task.transcript.calls[:] = coder.calls


def _changes(workspace: Workspace) -> Changes:
    """Return the current bytes of every written file."""
    places = {path: workspace.root / path for path in workspace.originals}
    return {path: p.read_bytes() if p.is_file() else None for path, p in places.items()}
