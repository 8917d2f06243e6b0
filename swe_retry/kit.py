"""The names that another benchmark is built of, such as those of ``exercises``.

Importing this module imports nothing: a name is imported from its home when it is first used, so
that the help of a command needs no large package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from swe_retry.core.lazy import homes_in

if TYPE_CHECKING:
    from swe_retry.agent.builtin import Coder, error_of, tries
    from swe_retry.agent.conversation.context import window_of
    from swe_retry.agent.conversation.limits import ConversationLimits, Reflections
    from swe_retry.agent.conversation.result import Ending, Result
    from swe_retry.agent.conversation.setup import ConversationSetup
    from swe_retry.agent.conversation.testreport import TestReport
    from swe_retry.agent.formats import format_names
    from swe_retry.agent.formats.plan import PlanFormat
    from swe_retry.agent.formats.protocol import Notation
    from swe_retry.agent.mentions import FileIndex
    from swe_retry.agent.protocol import AgentResult, OpenHost, Task
    from swe_retry.agent.surroundings import Transcript
    from swe_retry.attempts.transcript import transcript_blocks
    from swe_retry.cli.run import FLAGS, RedoOption
    from swe_retry.core.address import without_logins
    from swe_retry.core.atomic import (
        check_folder,
        scratch_folder,
        write_bytes_atomic,
        write_json_atomic,
        write_text_atomic,
        writing_atomic,
    )
    from swe_retry.core.errors import (
        DamagedFileError,
        InfrastructureError,
        StoppedError,
        UserError,
    )
    from swe_retry.core.git import blob_contents, git, git_result
    from swe_retry.core.hashing import sha256_of
    from swe_retry.core.jsontypes import objects, texts_in, value_at
    from swe_retry.core.money import as_text, in_words, known_sum, sum_words, total
    from swe_retry.core.plaintext import abbreviate, one_line, quantity, some, table
    from swe_retry.core.processes import run_limited, without_secrets
    from swe_retry.core.redaction import Redactor
    from swe_retry.core.settings import (
        Commas,
        Folder,
        Section,
        TextList,
        WrongValueError,
        chosen_settings,
        settings_of,
    )
    from swe_retry.core.shutdown import Shutdown
    from swe_retry.core.untrusted import (
        DamagedError,
        fault_of,
        invalid,
        json_of,
        read_bytes,
        read_object,
        text_of,
        yaml_of,
    )
    from swe_retry.environments.base import (
        EnvironmentKind,
        ResourceLimits,
        UnavailableError,
    )
    from swe_retry.environments.choice import (
        build_image,
        default_environment,
        install_packages,
        make_folders,
    )
    from swe_retry.environments.folders import (
        FOLDER,
        FolderCommand,
        FolderResult,
        Folders,
    )
    from swe_retry.environments.layout import check_path, write_files
    from swe_retry.instances.dataset import rows_of_path
    from swe_retry.instances.hub import rows_of_hub
    from swe_retry.instances.selection import check_date, in_period, narrow, read_ids
    from swe_retry.launch.flags import SettingFlag
    from swe_retry.launch.options import EnvFileOption, JsonFormat
    from swe_retry.launch.packages import packages_or_restart
    from swe_retry.launch.program import Command, Program, settings_command
    from swe_retry.llm.chat import (
        BudgetUsedError,
        ChatModel,
        Message,
        Reply,
        RequestRefusedError,
        WindowExceededError,
    )
    from swe_retry.llm.client import LiteLLMModel
    from swe_retry.llm.options import ModelChoice, ModelNames, Models, Sampling
    from swe_retry.llm.provider_errors import ProviderRefusalError, room_for_reply
    from swe_retry.llm.registry import Endpoint
    from swe_retry.llm.tokens import most_tokens, size
    from swe_retry.record.description import Run
    from swe_retry.record.keys import is_safe_key, is_safe_name
    from swe_retry.record.manifest import note_images
    from swe_retry.record.places import find_run
    from swe_retry.record.records import Attempt, AttemptStatus, Recorded
    from swe_retry.record.result import InstanceResult, InstanceStatus
    from swe_retry.record.runlock import run_lock
    from swe_retry.record.store import RunStore
    from swe_retry.record.versions import versions
    from swe_retry.report.pages.render import Renderer
    from swe_retry.report.pages.tables import Table
    from swe_retry.report.plots.picture import Picture, draw_picture, write_picture
    from swe_retry.report.plots.style import Theme, label, new_figure, percent_axis
    from swe_retry.report.statistics.comparing import compare_verdicts
    from swe_retry.report.statistics.methods import (
        Interval,
        Share,
        pass_at_k,
        percent,
        ratio,
        wilson,
    )
    from swe_retry.report.statistics.wording import of, points, render_text
    from swe_retry.repositories.history import (
        CommitFacts,
        FileChange,
        GitHistory,
        GitObject,
        HistoryReader,
        ask_repository,
        open_history,
        reading,
        utc_time,
    )
    from swe_retry.repositories.mirrors import Mirrors
    from swe_retry.repositories.names import DatasetName
    from swe_retry.results.jsonvalues import dollars, integer, number, texts
    from swe_retry.runner.benchmark import Benchmark
    from swe_retry.runner.calls.coordinator import CallCoordinator
    from swe_retry.runner.checks import check_folders, check_models
    from swe_retry.runner.config import (
        CommonConfig,
        ask_servers,
        model_slug,
        name_slug,
        read_models,
    )
    from swe_retry.runner.jobs import End, Finished, JobContext, WorkerAccess
    from swe_retry.runner.leftovers import clean_key
    from swe_retry.runner.modelsource import (
        LiveModels,
        NotRecordedError,
        ReplayedModels,
        Turn,
        recorded_of,
        replay_folder,
    )
    from swe_retry.runner.progress.state import WorkStep
    from swe_retry.runner.progress.summary_json import RunSummary
    from swe_retry.runner.session import start_run
    from swe_retry.runner.settings import CommonSettings, FolderSettings
    from swe_retry.runner.signals import heeding_signals
    from swe_retry.runner.slots import waiting_for_model
    from swe_retry.testing.testlogs import failed_test_names, report_results

_HOMES = homes_in(__file__)
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names
    if name not in __all__:
        raise AttributeError(f"swe_retry.kit has no name {name!r}")
    return getattr(import_module(_HOMES[name]), name)
