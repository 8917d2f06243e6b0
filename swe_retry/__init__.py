"""The SWE-bench retry harness: ``docs/api.md`` describes what other programs may import.

Python 2.7 and 3.6 read this file too, and stop at its first import. So nothing here is annotated,
and what programs import is loaded when they use it.
"""

from swe_retry import oldest as oldest

# What typing has, which Python 2.7 lacks; type checkers take it for true.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from swe_retry.agent.conversation.result import Ending as Ending
    from swe_retry.agent.protocol import Agent as Agent
    from swe_retry.agent.protocol import AgentResult as AgentResult
    from swe_retry.agent.protocol import Task as Task
    from swe_retry.api import Solution as Solution
    from swe_retry.api import load_run as load_run
    from swe_retry.api import solve as solve
    from swe_retry.core.errors import InfrastructureError as InfrastructureError
    from swe_retry.core.errors import UserError as UserError
    from swe_retry.llm.chat import ChatModel as ChatModel
    from swe_retry.llm.chat import Message as Message
    from swe_retry.llm.chat import Reply as Reply
    from swe_retry.llm.chat import ToolCall as ToolCall
    from swe_retry.results.rows import AttemptRecord as AttemptRecord
    from swe_retry.results.rows import CallRecord as CallRecord
    from swe_retry.results.rows import InstanceRecord as InstanceRecord
    from swe_retry.results.rows import RunRecords as RunRecords
else:

    def __getattr__(name):  # noqa: ANN001, ANN202
        if name not in __all__:
            raise AttributeError("module 'swe_retry' has no attribute %r" % name)  # noqa: UP031
        from importlib import import_module

        from swe_retry.core.lazy import homes_in

        return getattr(import_module(homes_in(__file__)[name]), name)

    def __dir__():  # noqa: ANN202
        return sorted(set(globals()) | set(__all__))


__all__ = [
    "Agent",
    "AgentResult",
    "AttemptRecord",
    "CallRecord",
    "ChatModel",
    "Ending",
    "InfrastructureError",
    "InstanceRecord",
    "Message",
    "Reply",
    "RunRecords",
    "Solution",
    "Task",
    "ToolCall",
    "UserError",
    "load_run",
    "solve",
]
