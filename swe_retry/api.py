"""The functions of the public API (docs/api.md); each imports what it needs when it is called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swe_retry.core.sources import Layer
    from swe_retry.results.rows import RunRecords


@dataclass(frozen=True)
class Solution:
    """What came of a run on one's own repository.

    Attributes:
        outcome: ``plausible``, ``plausible, untested``, ``not plausible``, ``no candidate``, or
            ``nothing to test``, where no model was called.
        patch: the best candidate, without edits of tests; empty without one.
        cost_usd: dollars of all calls; None where a price is unknown.
        folder: has the files of the run, but where no model was called.
    """

    outcome: str
    plausible: bool
    reason: str
    patch: str
    cost_usd: float | None
    folder: Path


def load_run(run: str | Path) -> RunRecords:
    """Return the rows of a run that ``report.py`` can read; nothing is written.

    Args:
        run: its name, or its folder; of another harness also a file.

    Raises:
        UserError: there is no such run, or a file of it is damaged.
    """
    from swe_retry.launch.program import quiet_packages
    from swe_retry.record.places import find_run
    from swe_retry.record.store import RunStore
    from swe_retry.report.named_runs import import_foreign
    from swe_retry.results.read import read_run
    from swe_retry.results.rows import records_of

    quiet_packages()
    path = find_run(str(run)).expanduser()
    with TemporaryDirectory() as folder:
        (ours,) = import_foreign([path], Path(folder), lambda line: None)
        records = records_of(read_run(RunStore.of_folder(ours)))
    return replace(records, folder=path.resolve())


def solve(
    repo: str | Path,
    issue: str | Path,
    *,
    models: str | Sequence[str] = (),
    budget_usd: float | None = None,
    setup: str | Sequence[str] = (),
    test: str = "",
    run: str = "",
    out: str | Path = "",
    settings: Mapping[str, object] | None = None,
    say: Callable[[str], None] = print,
) -> Solution:
    """Let models solve an issue of one's own repository, as ``harness.py --repo --issue`` does.

    The keys of providers and variables ``RETRY_…`` are read as by the command. In the main thread
    Ctrl-C lets attempts end at their next step, and again ends the process at once.

    Args:
        repo: a git repository: a folder or an address.
        issue: a file, an address of an issue, or a text.
        models: take turns.
        budget_usd: ends the run when its calls have cost this much.
        setup: commands that install what the tests need; by default they are found.
        test: a command that runs all tests; by default it is found.
        run: the name of the run; by default one that the same arguments give again.
        out: the folder that ``predictions/`` and ``logs/`` lie in.
        settings: any others, by their dotted names, as ``{"tests.required": False}``.
        say: takes each line about the progress.

    Raises:
        UserError: an argument, the repository or a setting cannot be used.
        InfrastructureError: an engine, network or disk failed.
        KeyboardInterrupt: the run was stopped; the same call continues it.
    """
    from swe_retry.attempts.config import RunSettings
    from swe_retry.cli.configuration import make_configuration
    from swe_retry.cli.start import check_run
    from swe_retry.core.money import as_number
    from swe_retry.launch.flags import CommandLine
    from swe_retry.launch.program import quiet_packages
    from swe_retry.own.run import prepare
    from swe_retry.own.solve import announce
    from swe_retry.own.solve import solve as solve_issue
    from swe_retry.runner.envfile import load_env_file

    quiet_packages()
    layer = _settings_layer(
        settings or {},
        {
            "project.repo": ("repo", str(repo)),
            "project.issue": ("issue", str(issue)),
            "project.setup": ("setup", setup),
            "project.test": ("test", test),
            "models.names": ("models", models),
            "budget.usd": ("budget_usd", budget_usd),
            "folders.run": ("run", run),
            "folders.out": ("out", out),
        },
    )
    load_env_file(None, say)
    line = CommandLine(RunSettings, layer)
    chosen = line.load()
    own_run = prepare(chosen, line.chosen)
    config = own_run.configure(make_configuration(chosen, own_run.environment))
    announce(own_run, say)
    result = solve_issue(own_run, check_run(config, say), say)
    if result is None:
        raise KeyboardInterrupt
    return Solution(
        outcome=result.outcome.value,
        plausible=result.plausible,
        reason=result.reason,
        patch=result.patch,
        cost_usd=as_number(result.cost),
        folder=result.store.folder,
    )


def _settings_layer(
    settings: Mapping[str, object], arguments: Mapping[str, tuple[str, object]]
) -> Layer:
    """Return settings and arguments, which have their own names in messages, as one layer."""
    from swe_retry.attempts.config import RunSettings
    from swe_retry.core.errors import UserError
    from swe_retry.core.sources import SourcedValue, of_mapping

    layer = of_mapping(RunSettings, settings, "settings")
    for name, (label, value) in arguments.items():
        if value is None or value in ("", ()):
            continue
        if name in layer:
            raise UserError(
                f"settings: {name} and the argument {label} are the same; give one"
            )
        layer[name] = SourcedValue(label, value)
    return layer
