"""Which images a run's instances use, when they are pulled, and in what order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.attempts.solving import InstanceJob
from bench.config import RunConfig, TestChoice
from bench.instances.instance import Instance
from bench.instances.project import shown_names
from bench.options import Options
from core.plaintext import counted
from environments.base import EnvironmentKind
from environments.docker.engine import connect
from environments.docker.imagestore.store import ImageStore, make_image_store
from runs.jobs import longest_first
from runs.options import EngineKind

Say = Callable[[str], None]


@dataclass(frozen=True)
class ImageUse:
    config: RunConfig
    options: Options

    @property
    def _any(self) -> bool:
        config = self.config
        return config.environment is EnvironmentKind.DOCKER and config.tests is not TestChoice.NONE

    @property
    def _limited(self) -> bool:
        return self._any and self.options.images.image_disk is not None

    def store(
        self, key: str, say: Say, check: Callable[[], None] = lambda: None
    ) -> ImageStore | None:
        """Return the images of the engine; None where no test runs in one, or no engine answers."""
        client = connect() if self._any else None
        if client is None:
            return None
        options = self.options
        return make_image_store(client, options.cache, options.images, key, say, check)

    def order(
        self, jobs: Sequence[InstanceJob], seconds: Mapping[str, float]
    ) -> Sequence[InstanceJob]:
        """Return the jobs in the order in which they start; see ``Benchmark``."""
        ordered = longest_first(jobs, seconds)
        return by_layers(ordered) if self._limited else ordered

    def pull_first(self, key: str, todo: Sequence[Instance], say: Say) -> None:
        """Pull all images before the work begins, unless their room is limited.

        On Ray, each machine pulls what it needs.
        """
        if not self._here or self._limited:
            return
        say = _shown(todo, say)
        images = used_images(todo, say)
        if images and (store := self.store(key, say)) is not None:
            store.fetch_all(images)

    @contextmanager
    def ahead(self, key: str, jobs: Sequence[InstanceJob], say: Say) -> Iterator[None]:
        """Pull the images of ``jobs`` in their order meanwhile, where their room is limited."""
        instances = [job.instance for job in jobs]
        say = _shown(instances, say)
        images = used_images(instances, say) if self._limited else ()
        store = self.store(key, say) if images and self._here else None
        if store is None:
            yield
            return
        with store.fetching_ahead(images):
            yield

    @property
    def _here(self) -> bool:
        return self.options.scale.engine is EngineKind.LOCAL


def _shown(instances: Sequence[Instance], say: Say) -> Say:
    # Names of images may hold the gold commit.
    return lambda text: say(shown_names(text, instances))


def used_images(todo: Sequence[Instance], say: Say) -> list[str]:
    untestable = sum(instance.test_setup is None for instance in todo)
    if untestable:
        which = counted(untestable, "instance")
        say(f"not pulled: images of {which} whose rows have no usable eval_script")
    return [instance.image for instance in todo if instance.test_setup is not None]


def by_layers(jobs: Sequence[InstanceJob]) -> list[InstanceJob]:
    """Return ``jobs`` such that those whose images share layers come after each other.

    SWE-bench builds the images for one version of a repository on one environment. The groups are
    in the order of their first jobs.
    """
    first: dict[tuple[str, str], int] = {}
    for place, job in enumerate(jobs):
        first.setdefault((job.instance.repo, job.instance.version), place)
    return sorted(jobs, key=lambda job: first[job.instance.repo, job.instance.version])
