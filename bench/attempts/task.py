"""The input of an agent."""

from __future__ import annotations

from agent.conversation.base import ConversationLimits
from agent.conversation.mentions import FileIndex
from agent.protocol import Task, Transcript
from agent.repomap import RenderedMaps
from bench.config import RunConfig
from bench.instances.instance import Instance
from bench.repos.checkout import Checkout
from runs.modelsource import Turn


def make_task(
    config: RunConfig,
    instance: Instance,
    checkout: Checkout,
    turn: Turn,
    files: FileIndex,
) -> Task:
    """Return the task of an agent alone: without tests, and without the rest of a run."""
    return Task(
        root=checkout.root,
        message=instance.problem_statement,
        repo_map="",
        files=files,
        model=turn.model,
        model_name=turn.name,
        edit_format=turn.edit_format,
        temperature=config.temperature(1),
        limits=ConversationLimits(config.max_reflections),
        run_tests=None,
        matching=config.matching,
        on_failure=config.on_failed_edit,
        submodules=frozenset(checkout.snapshot.submodules),
        transcript=Transcript(),
        log=lambda _: None,
        image_urls=instance.image_urls,
    )


def draw_map(
    config: RunConfig,
    instance: Instance,
    checkout: Checkout,
    turn: Turn,
    maps: RenderedMaps,
) -> str:
    """Return the map of the base commit for the issue, within the run's budget."""
    return maps.render(
        checkout.root,
        instance.problem_statement,
        config.map_tokens,
        count=turn.model.count,
        counter=turn.counter,
    )
