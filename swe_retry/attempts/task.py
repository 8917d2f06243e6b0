"""The input of an agent."""

from __future__ import annotations

from swe_retry.agent.conversation.limits import ConversationLimits
from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.protocol import OpenHost, Task, Transcript
from swe_retry.agent.repomap.rendered import RenderedMaps
from swe_retry.attempts.config import RunConfig
from swe_retry.instances.instance import Instance
from swe_retry.repositories.checkout import Checkout
from swe_retry.runner.modelsource import Turn


def make_task(
    config: RunConfig,
    instance: Instance,
    checkout: Checkout,
    turn: Turn,
    files: FileIndex,
    maps: RenderedMaps,
) -> Task:
    """Return the task of an agent alone: with a map, and without tests and the rest of a run."""

    def draw_map() -> str:
        return maps.render(
            checkout.root,
            instance.problem_statement,
            config.settings.builtin.map_tokens,
            count=turn.model.count,
            counter=turn.counter,
        )

    return Task(
        root=checkout.root,
        message=instance.problem_statement,
        repo_map="",
        files=files,
        model=turn.model,
        architect=turn.architect,
        model_name=turn.name,
        edit_format=turn.edit_format,
        temperature=config.settings.models.temperature(1),
        limits=ConversationLimits(config.settings.builtin.reflections),
        run_tests=None,
        matching=config.settings.builtin.matching,
        on_failure=config.settings.builtin.on_failed_edit,
        submodules=frozenset(checkout.snapshot.submodules),
        transcript=Transcript(),
        log=lambda _: None,
        image_urls=instance.image_urls,
        host=OpenHost(draw_map),
    )
