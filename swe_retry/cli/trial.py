"""What ``harness.py try`` does: run an agent once on a demo instance and show what it did."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from swe_retry.agent.conversation.result import Ending
from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.protocol import AgentResult, OpenHost, Task
from swe_retry.agent.repomap.rendered import RenderedMaps
from swe_retry.agent.repomap.scanning.store import TagStore
from swe_retry.agent.surroundings import Transcript
from swe_retry.attempts.benchmark import agent_of
from swe_retry.attempts.config import RunConfig, validate_config
from swe_retry.attempts.prepare import conversation_setup
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.money import in_words, total
from swe_retry.core.plaintext import Say, visible
from swe_retry.core.processes import remove_tree
from swe_retry.instances.dataset import load_dataset
from swe_retry.llm.chat import Usage
from swe_retry.llm.gate import OpenGate
from swe_retry.record.patches import submittable_patch
from swe_retry.repositories.checkout import Checkout, make_checkout
from swe_retry.repositories.lefttree import UnusableTreeError, prepare_left_tree
from swe_retry.repositories.mirrors import mirrors_of
from swe_retry.repositories.patches import take_patch
from swe_retry.runner.checks import check_models
from swe_retry.runner.modelsource import LiveModels
from swe_retry.testing.project import snapshot_of

_INSTANCE = "demo__textkit-1"


def try_agent(config: RunConfig, say: Say) -> int:
    """Run the agent of ``config`` on one demo instance and say how it ended; return the exit code.

    Nothing is tested, and nothing is written but to a folder that is removed.
    """
    config = validate_config(config)
    agent = agent_of(config)
    check_models(config)
    instances = load_dataset("demo", "test").instances()
    by_id = {instance.instance_id: instance for instance in instances}
    instance = by_id[_INSTANCE]
    mirrors = mirrors_of("demo", config.cache, None, config.bundled)
    snapshot = snapshot_of(instance, mirrors, config.cache / "snapshots")
    models = LiveModels(config, say)
    temperature = config.settings.models.temperature(1)
    turn = models.turn(
        _INSTANCE,
        1,
        config.models[0],
        temperature,
        OpenGate(),
    )
    maps = RenderedMaps(snapshot.blobs, TagStore(config.cache / "tags.sqlite"))
    files = FileIndex(snapshot.blobs, snapshot.submodules)
    folder = Path(tempfile.mkdtemp())
    try:
        checkout = make_checkout(snapshot, folder / "checkout")
        log: list[str] = []
        draw_map = partial(
            maps.render,
            checkout.root,
            instance.problem_statement,
            config.settings.builtin.map_tokens,
            count=turn.model.count,
            counter=turn.counter,
        )
        task = Task(
            root=checkout.root,
            message=instance.problem_statement,
            files=files,
            model=turn.model,
            architect=turn.architect,
            model_name=turn.name,
            edit_format=turn.edit_format,
            temperature=temperature,
            transcript=Transcript(),
            log=log.append,
            setup=conversation_setup(config, instance),
            host=OpenHost(draw_map),
        )
        started = time.monotonic()
        try:
            result = agent.work(task)
        except InfrastructureError as error:
            result = AgentResult(None, str(error), Ending.FAILED)
        seconds = time.monotonic() - started
        patch, notes = _take_patch(checkout, ours=result.result is not None)
    finally:
        remove_tree(folder)
    if config.has_gateway:
        # The conversation is that with the model; what the agent printed is in the log alone.
        notes = [*log, *notes]
    lines = _lines(config, result, task, seconds, patch)
    for line in (*lines, *notes):
        say(visible(line))
    succeeded = result.ending is None and patch.strip()
    return int(not succeeded)


def _take_patch(checkout: Checkout, *, ours: bool) -> tuple[str, list[str]]:
    """Return the patch to predict, and what was left out of it."""
    notes = []
    if not ours:
        try:
            for path in prepare_left_tree(checkout):
                notes.append(f"dropped: {path}")
        except UnusableTreeError as error:
            return "", [str(error)]
    patch = take_patch(checkout, ignored=ours)
    return submittable_patch(patch).patch, notes


def _lines(
    config: RunConfig,
    result: AgentResult,
    task: Task,
    seconds: float,
    patch: str,
) -> Iterator[str]:
    replies = task.transcript.calls
    usages = [reply.usage for reply in replies]
    tokens = "unknown"
    if any(usages):
        usage = Usage.known_sum(usages)
        tokens = f"{usage.prompt_tokens:,} in, {usage.completion_tokens:,} out"
    ending = result.error or "normally"
    if config.outside_agent and not result.error:
        ending = "exit code 0"
    yield f"agent     {config.settings.agent.name}"
    yield f"instance  {_INSTANCE}"
    yield f"ended     {ending}"
    yield f"time      {seconds:.1f} s"
    yield f"cost      {in_words(total(reply.cost for reply in replies))}"
    yield f"tokens    {tokens}"
    for message in task.transcript.messages[1:]:
        yield f"\n--- {message.role} ---\n{message.content.rstrip()}"
    text = patch.rstrip() or "none: no change is left"
    yield f"\n--- the predicted patch ---\n{text}"
