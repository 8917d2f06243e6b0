"""The names that another benchmark is built of, such as those of ``exercises``.

Importing this module imports nothing: a name is imported from its home when it is first used, so
that the help of a command needs no large package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swe_retry.agent.builtin import PlanFormat as PlanFormat
    from swe_retry.agent.builtin import error_of as error_of
    from swe_retry.agent.builtin import tries as tries
    from swe_retry.agent.conversation.base import (
        ConversationLimits as ConversationLimits,
    )
    from swe_retry.agent.conversation.base import ConversationSetup as ConversationSetup
    from swe_retry.agent.conversation.base import Ending as Ending
    from swe_retry.agent.conversation.base import Reflections as Reflections
    from swe_retry.agent.conversation.base import Result as Result
    from swe_retry.agent.conversation.context import window_of as window_of
    from swe_retry.agent.conversation.testreport import TestReport as TestReport
    from swe_retry.agent.formats import format_names as format_names
    from swe_retry.agent.formats.base import Notation as Notation
    from swe_retry.agent.mentions import FileIndex as FileIndex
    from swe_retry.agent.protocol import AgentResult as AgentResult
    from swe_retry.agent.protocol import Task as Task
    from swe_retry.agent.protocol import Transcript as Transcript
    from swe_retry.bench.attempts import transcript_blocks as transcript_blocks
    from swe_retry.bench.cli.cli import EnvFileOption as EnvFileOption
    from swe_retry.bench.cli.cli import JsonFormat as JsonFormat
    from swe_retry.bench.cli.command_line import FLAGS as FLAGS
    from swe_retry.bench.cli.command_line import RedoOption as RedoOption
    from swe_retry.bench.cli.dispatch import Command as Command
    from swe_retry.bench.cli.dispatch import Program as Program
    from swe_retry.bench.instances.dataset import rows_of_hub as rows_of_hub
    from swe_retry.bench.instances.dataset import rows_of_path as rows_of_path
    from swe_retry.bench.instances.names import DatasetName as DatasetName
    from swe_retry.bench.regression.testlogs import (
        failed_test_names as failed_test_names,
    )
    from swe_retry.bench.regression.testlogs import report_results as report_results
    from swe_retry.bench.repos.mirrors import Mirrors as Mirrors
    from swe_retry.bench.selection import Selection as Selection
    from swe_retry.bench.selection import check_date as check_date
    from swe_retry.bench.selection import in_period as in_period
    from swe_retry.bench.selection import read_ids as read_ids
    from swe_retry.core.address import without_logins as without_logins
    from swe_retry.core.atomic import check_folder as check_folder
    from swe_retry.core.atomic import scratch_folder as scratch_folder
    from swe_retry.core.atomic import write_bytes_atomic as write_bytes_atomic
    from swe_retry.core.atomic import write_json_atomic as write_json_atomic
    from swe_retry.core.atomic import write_text_atomic as write_text_atomic
    from swe_retry.core.atomic import writing_atomic as writing_atomic
    from swe_retry.core.errors import DamagedFileError as DamagedFileError
    from swe_retry.core.errors import InfrastructureError as InfrastructureError
    from swe_retry.core.errors import StoppedError as StoppedError
    from swe_retry.core.errors import UserError as UserError
    from swe_retry.core.git import blob_contents as blob_contents
    from swe_retry.core.git import git as git
    from swe_retry.core.git import git_environment as git_environment
    from swe_retry.core.git import git_result as git_result
    from swe_retry.core.hashing import sha256_of as sha256_of
    from swe_retry.core.jsontypes import objects as objects
    from swe_retry.core.jsontypes import texts_in as texts_in
    from swe_retry.core.jsontypes import value_at as value_at
    from swe_retry.core.money import as_text as as_text
    from swe_retry.core.money import in_words as in_words
    from swe_retry.core.money import known_sum as known_sum
    from swe_retry.core.money import sum_words as sum_words
    from swe_retry.core.money import total as total
    from swe_retry.core.parsing.untrusted import DamagedError as DamagedError
    from swe_retry.core.parsing.untrusted import fault_of as fault_of
    from swe_retry.core.parsing.untrusted import invalid as invalid
    from swe_retry.core.parsing.untrusted import json_of as json_of
    from swe_retry.core.parsing.untrusted import read_bytes as read_bytes
    from swe_retry.core.parsing.untrusted import read_object as read_object
    from swe_retry.core.parsing.untrusted import text_of as text_of
    from swe_retry.core.parsing.untrusted import yaml_of as yaml_of
    from swe_retry.core.plaintext import abbreviate as abbreviate
    from swe_retry.core.plaintext import one_line as one_line
    from swe_retry.core.plaintext import quantity as quantity
    from swe_retry.core.plaintext import some as some
    from swe_retry.core.plaintext import table as table
    from swe_retry.core.processes import run_limited as run_limited
    from swe_retry.core.processes import without_secrets as without_secrets
    from swe_retry.core.redaction import Redactor as Redactor
    from swe_retry.core.settings import CommandLine as CommandLine
    from swe_retry.core.settings import Commas as Commas
    from swe_retry.core.settings import Folder as Folder
    from swe_retry.core.settings import Section as Section
    from swe_retry.core.settings import SettingFlag as SettingFlag
    from swe_retry.core.settings import TextList as TextList
    from swe_retry.core.settings import WrongValueError as WrongValueError
    from swe_retry.core.settings import chosen_settings as chosen_settings
    from swe_retry.core.settings import command as command
    from swe_retry.core.settings import settings_of as settings_of
    from swe_retry.core.shutdown import Shutdown as Shutdown
    from swe_retry.environments.base import EnvironmentKind as EnvironmentKind
    from swe_retry.environments.base import ResourceLimits as ResourceLimits
    from swe_retry.environments.base import UnavailableError as UnavailableError
    from swe_retry.environments.choice import build_image as build_image
    from swe_retry.environments.choice import default_environment as default_environment
    from swe_retry.environments.choice import install_packages as install_packages
    from swe_retry.environments.choice import make_folders as make_folders
    from swe_retry.environments.folders import FOLDER as FOLDER
    from swe_retry.environments.folders import FolderCommand as FolderCommand
    from swe_retry.environments.folders import FolderResult as FolderResult
    from swe_retry.environments.folders import Folders as Folders
    from swe_retry.environments.layout import check_path as check_path
    from swe_retry.environments.layout import write_files as write_files
    from swe_retry.llm.chat import BudgetUsedError as BudgetUsedError
    from swe_retry.llm.chat import ChatModel as ChatModel
    from swe_retry.llm.chat import Message as Message
    from swe_retry.llm.chat import Reply as Reply
    from swe_retry.llm.chat import RequestRefusedError as RequestRefusedError
    from swe_retry.llm.chat import WindowExceededError as WindowExceededError
    from swe_retry.llm.client import LiteLLMModel as LiteLLMModel
    from swe_retry.llm.options import ModelChoice as ModelChoice
    from swe_retry.llm.options import ModelNames as ModelNames
    from swe_retry.llm.options import Models as Models
    from swe_retry.llm.options import Sampling as Sampling
    from swe_retry.llm.provider_errors import (
        ProviderRefusalError as ProviderRefusalError,
    )
    from swe_retry.llm.provider_errors import room_for_reply as room_for_reply
    from swe_retry.llm.registry import accepts_options as accepts_options
    from swe_retry.llm.registry import endpoint_arguments as endpoint_arguments
    from swe_retry.llm.tokens import most_tokens as most_tokens
    from swe_retry.llm.tokens import size as size
    from swe_retry.reports.data.jsonvalues import dollars as dollars
    from swe_retry.reports.data.jsonvalues import integer as integer
    from swe_retry.reports.data.jsonvalues import number as number
    from swe_retry.reports.data.jsonvalues import texts as texts
    from swe_retry.reports.pages.render import Renderer as Renderer
    from swe_retry.reports.pages.tables import Table as Table
    from swe_retry.reports.plots.style import Theme as Theme
    from swe_retry.reports.plots.style import label as label
    from swe_retry.reports.plots.style import new_figure as new_figure
    from swe_retry.reports.plots.style import percent_axis as percent_axis
    from swe_retry.reports.plots.write import Picture as Picture
    from swe_retry.reports.plots.write import draw_picture as draw_picture
    from swe_retry.reports.plots.write import write_picture as write_picture
    from swe_retry.reports.statistics.comparing import (
        compare_verdicts as compare_verdicts,
    )
    from swe_retry.reports.statistics.methods import Interval as Interval
    from swe_retry.reports.statistics.methods import Share as Share
    from swe_retry.reports.statistics.methods import pass_at_k as pass_at_k
    from swe_retry.reports.statistics.methods import percent as percent
    from swe_retry.reports.statistics.methods import ratio as ratio
    from swe_retry.reports.statistics.methods import wilson as wilson
    from swe_retry.reports.texts import of as of
    from swe_retry.reports.texts import points as points
    from swe_retry.reports.texts import render_text as render_text
    from swe_retry.runs.benchmark import Benchmark as Benchmark
    from swe_retry.runs.calls.coordinator import CallCoordinator as CallCoordinator
    from swe_retry.runs.checks import check_folders as check_folders
    from swe_retry.runs.checks import check_models as check_models
    from swe_retry.runs.description import Run as Run
    from swe_retry.runs.jobs import End as End
    from swe_retry.runs.jobs import Finished as Finished
    from swe_retry.runs.jobs import JobContext as JobContext
    from swe_retry.runs.jobs import WorkerAccess as WorkerAccess
    from swe_retry.runs.keys import is_safe_key as is_safe_key
    from swe_retry.runs.keys import is_safe_name as is_safe_name
    from swe_retry.runs.leftovers import clean_key as clean_key
    from swe_retry.runs.modelsource import LiveModels as LiveModels
    from swe_retry.runs.modelsource import NotRecordedError as NotRecordedError
    from swe_retry.runs.modelsource import ReplayedModels as ReplayedModels
    from swe_retry.runs.modelsource import Turn as Turn
    from swe_retry.runs.modelsource import recorded_of as recorded_of
    from swe_retry.runs.modelsource import replay_folder as replay_folder
    from swe_retry.runs.options import RunBasics as RunBasics
    from swe_retry.runs.options import RunResources as RunResources
    from swe_retry.runs.options import ask_servers as ask_servers
    from swe_retry.runs.options import model_slug as model_slug
    from swe_retry.runs.options import name_slug as name_slug
    from swe_retry.runs.options import read_models as read_models
    from swe_retry.runs.progress.state import WorkStep as WorkStep
    from swe_retry.runs.progress.summary_json import RunSummary as RunSummary
    from swe_retry.runs.records import Attempt as Attempt
    from swe_retry.runs.records import AttemptStatus as AttemptStatus
    from swe_retry.runs.records import InstanceResult as InstanceResult
    from swe_retry.runs.records import InstanceStatus as InstanceStatus
    from swe_retry.runs.records import Recorded as Recorded
    from swe_retry.runs.session import start_run as start_run
    from swe_retry.runs.settings import CommonSettings as CommonSettings
    from swe_retry.runs.settings import FolderSettings as FolderSettings
    from swe_retry.runs.signals import heeding_signals as heeding_signals
    from swe_retry.runs.slots import WaitingModel as WaitingModel
    from swe_retry.runs.storage.manifest import note_images as note_images
    from swe_retry.runs.storage.places import find_run as find_run
    from swe_retry.runs.storage.runlock import run_lock as run_lock
    from swe_retry.runs.storage.store import RunStore as RunStore
    from swe_retry.runs.storage.versions import versions as versions

_NAMES = {
    "bench.cli.cli": "EnvFileOption JsonFormat",
    "bench.cli.command_line": "FLAGS RedoOption",
    "bench.cli.dispatch": "Command Program",
    "core.settings": (
        "CommandLine Commas Folder Section SettingFlag TextList "
        "WrongValueError chosen_settings command settings_of"
    ),
    "runs.benchmark": "Benchmark",
    "runs.calls.coordinator": "CallCoordinator",
    "runs.checks": "check_folders check_models",
    "runs.description": "Run",
    "runs.jobs": "End Finished JobContext WorkerAccess",
    "runs.keys": "is_safe_key is_safe_name",
    "runs.leftovers": "clean_key",
    "runs.modelsource": (
        "LiveModels NotRecordedError ReplayedModels Turn recorded_of replay_folder"
    ),
    "runs.options": (
        "RunBasics RunResources ask_servers model_slug name_slug read_models"
    ),
    "runs.progress.state": "WorkStep",
    "runs.progress.summary_json": "RunSummary",
    "runs.records": "Attempt AttemptStatus InstanceResult InstanceStatus Recorded",
    "runs.session": "start_run",
    "runs.settings": "CommonSettings FolderSettings",
    "runs.signals": "heeding_signals",
    "runs.slots": "WaitingModel",
    "runs.storage.manifest": "note_images",
    "runs.storage.places": "find_run",
    "runs.storage.runlock": "run_lock",
    "runs.storage.store": "RunStore",
    "runs.storage.versions": "versions",
    "agent.builtin": "PlanFormat error_of tries",
    "agent.conversation.base": (
        "ConversationLimits ConversationSetup Ending Reflections Result"
    ),
    "agent.conversation.context": "window_of",
    "agent.conversation.testreport": "TestReport",
    "agent.formats": "format_names",
    "agent.formats.base": "Notation",
    "agent.mentions": "FileIndex",
    "agent.protocol": "AgentResult Task Transcript",
    "llm.chat": (
        "BudgetUsedError ChatModel Message Reply RequestRefusedError "
        "WindowExceededError"
    ),
    "llm.client": "LiteLLMModel",
    "llm.options": "ModelChoice ModelNames Models Sampling",
    "llm.provider_errors": "ProviderRefusalError room_for_reply",
    "llm.registry": "accepts_options endpoint_arguments",
    "llm.tokens": "most_tokens size",
    "environments.base": "EnvironmentKind ResourceLimits UnavailableError",
    "environments.choice": (
        "build_image default_environment install_packages make_folders"
    ),
    "environments.folders": "FOLDER FolderCommand FolderResult Folders",
    "environments.layout": "check_path write_files",
    "bench.attempts": "transcript_blocks",
    "bench.instances.dataset": "rows_of_hub rows_of_path",
    "bench.instances.names": "DatasetName",
    "bench.regression.testlogs": "failed_test_names report_results",
    "bench.repos.mirrors": "Mirrors",
    "bench.selection": "Selection check_date in_period read_ids",
    "reports.data.jsonvalues": "dollars integer number texts",
    "reports.pages.render": "Renderer",
    "reports.pages.tables": "Table",
    "reports.plots.style": "Theme label new_figure percent_axis",
    "reports.plots.write": "Picture draw_picture write_picture",
    "reports.statistics.comparing": "compare_verdicts",
    "reports.statistics.methods": "Interval Share pass_at_k percent ratio wilson",
    "reports.texts": "of points render_text",
    "core.address": "without_logins",
    "core.atomic": (
        "check_folder scratch_folder write_bytes_atomic write_json_atomic "
        "write_text_atomic writing_atomic"
    ),
    "core.errors": "DamagedFileError InfrastructureError StoppedError UserError",
    "core.git": "blob_contents git git_environment git_result",
    "core.hashing": "sha256_of",
    "core.jsontypes": "objects texts_in value_at",
    "core.money": "as_text in_words known_sum sum_words total",
    "core.parsing.untrusted": (
        "DamagedError fault_of invalid json_of read_bytes read_object text_of yaml_of"
    ),
    "core.plaintext": "abbreviate one_line quantity some table",
    "core.processes": "run_limited without_secrets",
    "core.redaction": "Redactor",
    "core.shutdown": "Shutdown",
}
"""The names of each module of the house."""
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names
    if name not in _HOMES:
        raise AttributeError(f"swe_retry.kit has no name {name!r}")
    return getattr(import_module(f"swe_retry.{_HOMES[name]}"), name)
