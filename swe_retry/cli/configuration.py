"""What the settings of ``harness.py`` mean here: models, an environment, prices."""

from __future__ import annotations

from dataclasses import replace

from swe_retry.agent.agents import is_command
from swe_retry.agent.named import AGENTS
from swe_retry.attempts.config import RunConfig, RunSettings
from swe_retry.environments.base import EnvironmentKind
from swe_retry.environments.choice import default_environment
from swe_retry.runner.config import ask_servers, read_models


def make_configuration(
    settings: RunSettings,
    environment: EnvironmentKind | None = None,
    *,
    redo: str = "",
    dry_run: bool = False,
    prints_json: bool = False,
) -> RunConfig:
    """Return what the settings mean here.

    Args:
        settings: of the run.
        environment: runs the tests; None for that of the settings.
        redo: ids and statuses of what is done again.
        dry_run: nothing is started, and no server is waited for that loads its model.
        prints_json: the result is printed as JSON.
    """
    # A command that calls its model itself may have any name for it.
    calls_itself = is_command(settings.agent.name) and not settings.agent.api
    models, book = read_models(
        settings, agents=[agent.name for agent in AGENTS], any_name=calls_itself
    )
    if not calls_itself:
        models = ask_servers(models, settings.calls, wait=not dry_run)
    if environment is None:
        environment = settings.tests.environment or default_environment()
    config = RunConfig.of(settings, models, book, environment)
    return replace(config, redo=redo, dry_run=dry_run, prints_json=prints_json)
