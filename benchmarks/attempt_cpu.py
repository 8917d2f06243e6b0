"""Measure the harness's CPU per attempt: ``python -m benchmarks.attempt_cpu --repos MIRRORS``.

A scripted model in this process answers three calls per attempt: it names a file, breaks it, and
fixes it. The rest is the harness: checkouts, maps, conversations, patches and saving. One run
before the measured one fills the caches.
"""

from __future__ import annotations

import functools
import logging
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.assembly import Options, ServicesFactory, make_kind
from bench.attempts.solving import InstanceJob
from bench.cli.commands import describe_run
from bench.config import ModelChoice, RunConfig
from bench.instances.dataset import Dataset, load_dataset
from bench.instances.instance import Instance
from bench.repos.mirrors import Mirrors
from bench.repos.patches import is_test_path
from bench.selection import Selection
from core.git import git
from core.shutdown import Shutdown
from demo import register
from demo.setup import build_mirrors
from llm.chat import Message, Reply, Tool, Traits, Usage, estimate_tokens
from llm.gate import Gate
from llm.tokens import ESTIMATE, count_tokens, counter_name
from runs.engines.threads import ThreadEngine
from runs.jobs import JobAccess, WorkerAccess
from runs.modelsource import Turn
from runs.options import Scale, Spending
from runs.progress.display import make_display, stream_of
from runs.progress.state import ProgressState
from runs.run import Run, open_run
from runs.session import make_coordinator, model_use
from runs.slots import Slots
from runs.storage.store import RunStore
from runs.storage.timings import Timings

_GOAL = 200.0
"""Milliseconds per attempt in a repository of flask's size."""

# Flask's gold patches edit files of 11 to 35 kB.
_LONGEST_SHOWN = 35_000
# The measured functions by the module that defines them, and their phases.
_PHASES = {
    ("bench.repos.checkout", "make_checkout"): "checkout",
    ("bench.repos.checkout", "renew_checkout"): "renewal",
    ("agent.builtin", "BuiltinAgent.work"): "conversation",
    ("bench.attempts.attempt", "Attempt._rendered_map"): "map",
    ("bench.repos.patches", "take_patch"): "patch",
    ("bench.repos.patches", "applies"): "applies",
    ("shutil", "rmtree"): "removal",
    ("runs.storage.store", "RunStore.save_instance"): "save",
}
_BAD = "{path}\n```\n<<<<<<< SEARCH\n{line}\n=======\ndef broken(:\n{line}\n>>>>>>> REPLACE\n```\n"
_GOOD = "{path}\n```\n<<<<<<< SEARCH\ndef broken(:\n=======\nMENDED = True\n>>>>>>> REPLACE\n```\n"


@dataclass
class ScriptedModel:
    """Names ``path``, adds invalid Python before ``line``, and removes it again."""

    path: str
    line: str
    counter: Callable[[str], int]
    traits: Traits = field(default_factory=lambda: Traits(context=128_000))
    calls: int = 0

    def count(self, text: str) -> int:
        """See ``ChatModel``."""
        return self.counter(text)

    def complete(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> Reply:
        """Return the next reply."""
        script = (f"Show me {self.path}.", *(t.format(**vars(self)) for t in (_BAD, _GOOD)))
        self.calls += 1
        return Reply(script[self.calls - 1], usage=Usage(1000, 100), cost=Decimal())


@dataclass
class ScriptedModels:
    """Gives each attempt a ``ScriptedModel`` for a long file that still fits the window."""

    mirrors: Mirrors
    instances: dict[str, Instance]
    counter: Callable[[str], int]
    counter_name: str
    models: list[ScriptedModel] = field(default_factory=list)
    _edits: dict[str, tuple[str, str]] = field(default_factory=dict)

    def turn(
        self,
        instance_id: str,
        attempt: int,
        choice: ModelChoice,
        temperature: float,
        gate: Gate | None = None,
    ) -> Turn:
        """See ``ModelSource``."""
        model = ScriptedModel(*self.edit(instance_id), self.counter)
        self.models.append(model)
        return Turn(model, choice.name, choice.edit_format, self.counter_name)

    def edit(self, instance_id: str) -> tuple[str, str]:
        """Return the file to edit, and the first line of a definition that it contains once."""
        if instance_id not in self._edits:
            self._edits[instance_id] = self._chosen(self.instances[instance_id])
        return self._edits[instance_id]

    def _chosen(self, instance: Instance) -> tuple[str, str]:
        mirror, commit = self.mirrors.get(instance.repo, instance.base_commit), instance.base_commit
        listing = git("ls-tree", "-r", "-l", commit, cwd=mirror).decode("utf-8", "replace")
        sizes = {row.split("\t")[1]: int(row.split()[3]) for row in listing.splitlines()}
        small = [p for p in sizes if p.endswith(".py") and sizes[p] <= _LONGEST_SHOWN]
        path = max((p for p in small if not is_test_path(p)), key=lambda p: (sizes[p], p))
        lines = git("cat-file", "blob", f"{commit}:{path}", cwd=mirror).decode().split("\n")
        heads = [after for before, after in pairwise(lines) if before[:1] != "@"]
        heads = [line for line in heads if line.startswith(("def ", "class "))]
        return path, next(line for line in heads if lines.count(line) == 1)


@dataclass
class Meter:
    """Milliseconds of CPU by phase, in this process and its children."""

    own: dict[str, float] = field(default_factory=dict)
    children: dict[str, float] = field(default_factory=dict)

    def watch(self) -> None:
        """Measure the functions of all phases in every module that imports them."""
        for (module, name), phase in _PHASES.items():
            holder, _, last = f"{module}.{name}".rpartition(".")
            owner: Any = sys.modules[module]
            if holder != module:
                owner = getattr(owner, holder.removeprefix(f"{module}."))
            real = getattr(owner, last)
            measured = self._measured(phase, real)
            for place in [owner, *sys.modules.values()]:
                if getattr(place, last, None) is real:
                    setattr(place, last, measured)

    def _measured(self, phase: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def measured(*args: Any, **named: Any) -> Any:  # noqa: ANN401
            own, children = cpu()
            try:
                return real(*args, **named)
            finally:
                now, others = cpu()
                self.own[phase] = self.own.get(phase, 0.0) + now - own
                self.children[phase] = self.children.get(phase, 0.0) + others - children

        return measured


def cpu() -> tuple[float, float]:
    """Return milliseconds of CPU of this process, and of its children that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() * 1000, (children.ru_utime + children.ru_stime) * 1000


def main(
    repos: Annotated[Path | None, typer.Option(help="Folder of mirrors.")] = None,
    dataset: Annotated[str, typer.Option(help="As for harness.py.")] = "demo",
    instances: Annotated[str, typer.Option(help="Ids, separated by commas.")] = "",
    tokenizer: Annotated[
        str,
        typer.Option(help="Count tokens as litellm does for this model; default: 4 characters."),
    ] = "",
    limit: Annotated[
        float, typer.Option(help="Exit with 1 above this many ms per attempt.")
    ] = _GOAL,
) -> None:
    """Print the CPU per attempt by phase, in milliseconds."""
    register()
    loaded = load_dataset(dataset, "test")
    chosen = Selection(tuple(filter(None, instances.split(",")))).apply(loaded.instances())
    counter = functools.partial(count_tokens, tokenizer) if tokenizer else estimate_tokens
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "cache")
        mirrors = Mirrors(repos or build_mirrors(cache / "demo-mirrors"))
        called = counter_name(tokenizer) if tokenizer else ESTIMATE
        models = ScriptedModels(mirrors, {i.instance_id: i for i in chosen}, counter, called)
        _run(loaded, chosen, models, cache, "warm-up")
        meter = Meter()
        meter.watch()
        models.models.clear()
        started, (own, children) = time.monotonic(), cpu()
        _run(loaded, chosen, models, cache, "measured")
        now, others = cpu()
        wall = (time.monotonic() - started) * 1000
    wrong = [m.path for m in models.models if m.calls != 3]
    if wrong:
        raise SystemExit(f"{len(wrong)} attempts made another number of calls: {wrong[0]}")
    _print(meter, len(models.models), now - own, others - children, wall)
    sys.exit((now - own + others - children) / len(models.models) > limit)


def _run(
    dataset: Dataset, instances: Sequence[Instance], models: ScriptedModels, cache: Path, name: str
) -> None:
    config = RunConfig(
        models=tuple(ModelChoice.parse(m, replay=True) for m in ("model-a@diff", "model-b@diff")),
        run=name,
        label="scripted",
        api_base="http://127.0.0.1:9/v1",
        all_attempts=True,
    )
    options = Options(
        dataset=dataset.name,
        out=cache / "out",
        cache=cache,
        scale=Scale(workers=1),
        money=Spending(allow_unpriced=True),
    )
    store, stop = RunStore(options.out, name), Shutdown()
    use = model_use(config, options.money)
    coordinator = make_coordinator(store, options.scale, options.money, use, stop, print)
    worker = WorkerAccess(cache, name, Slots(1, stop), stop, print)
    services = replace(
        ServicesFactory(config, options)(worker), mirrors=models.mirrors, models=models
    )
    access = JobAccess(coordinator, ProgressState(1), logging.Logger("benchmark"))
    engine = ThreadEngine(1, lambda job: job.work(services, access), print)
    display = make_display(stream_of(lambda _: None), ProgressState(len(instances)), Decimal)
    timings = Timings(cache / "timings.json")
    jobs = [InstanceJob(instance) for instance in instances]
    open_run(store, describe_run(config, dataset.identity()), [job.key for job in jobs])
    kind = make_kind(config, options, store, print)
    run = Run(store, coordinator, engine, display, timings, kind)
    run.execute(jobs)


def _print(meter: Meter, attempts: int, own: float, children: float, wall: float) -> None:
    print(f"{attempts} attempts, ms of CPU per attempt")
    print(f"{'':14}{'own':>8}{'git':>8}{'sum':>8}")
    for phase in dict.fromkeys(_PHASES.values()):
        _row(phase, meter.own.get(phase, 0.0), meter.children.get(phase, 0.0), attempts)
    rest = own - sum(meter.own.values()), children - sum(meter.children.values())
    _row("all else", *rest, attempts)
    _row("together", own, children, attempts)
    print(f"{'wall':14}{wall / attempts:24.1f}")


def _row(name: str, own: float, children: float, attempts: int) -> None:
    both = own / attempts, children / attempts
    print(f"{name:14}{both[0]:8.1f}{both[1]:8.1f}{sum(both):8.1f}")


if __name__ == "__main__":
    typer.run(main)
