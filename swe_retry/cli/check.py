"""The command ``harness.py check``: set a repository up and run its tests; call no model."""

from __future__ import annotations

from swe_retry.attempts.config import RunSettings
from swe_retry.cli.command_line import flags_of, make_configuration
from swe_retry.cli.own import prepare
from swe_retry.core.settings import CommandLine, SourcedValue, command
from swe_retry.launch.cli import EnvFileOption
from swe_retry.own.issues import Issue

_FLAGS = flags_of("project.repo", "project.setup", "project.test", "tests.environment")


@command(RunSettings, _FLAGS)
def main(line: CommandLine[RunSettings], env_file: EnvFileOption = None) -> int:
    """Show how a repository (--repo, by default .) is set up and tested; call no model."""
    fixed = {}
    if "project.repo" not in line.chosen:
        fixed["project.repo"] = SourcedValue("check", ".")
    settings = line.load(fixed=fixed)
    if line.prints(settings):
        return 0
    run = prepare(settings, line.chosen, Issue(text="check", title=""))
    config = make_configuration(settings, run.environment, dry_run=True)
    return run.check(run.own_config(config), print)
