"""The official evaluator: swebench's containers in the engine at hand."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.errors import InfrastructureError
from environments.docker.engine import connect, engine_answers, engine_error_types
from environments.docker.images import RESERVE, digest, missing_images, pull_each
from environments.docker.registries import Registries
from environments.leftovers import remove_named
from reports.evaluation.evaluators.base import Job, Verdict
from reports.evaluation.evaluators.swebench import ENGINE_STOPPED, Swebench, check_rows

_GB = 1e9


@dataclass(frozen=True)
class DockerEvaluator:
    """Has swebench evaluate in containers.

    Attributes:
        build: is called with the instance ids before anything is pulled, for images that no
            registry has.
        reserve: bytes that stay free where the engine keeps its images.
    """

    swebench: Swebench
    build: Callable[[Sequence[str]], None]
    say: Callable[[str], None]
    registries: Registries = field(default_factory=Registries)
    reserve: int = RESERVE
    name: str = field(default="docker", init=False)

    def accepts(self, verdict: Verdict | None) -> bool:
        """Return True for what was judged officially; see ``Evaluator``."""
        return verdict is not None and verdict.final

    def prepare(self, jobs: Sequence[Job]) -> Mapping[str, str]:
        """Look at the engine, its disk and the images, and pull what is missing."""
        lacking = check_rows(jobs)
        jobs = [job for job in jobs if job.instance.instance_id not in lacking]
        return {**lacking, **self._unavailable(jobs)}

    def _unavailable(self, jobs: Sequence[Job]) -> Mapping[str, str]:
        client = connect()
        if client is None:
            reason = "no Docker engine answers: start one, or use --evaluator local"
            self.say(f"engine: {reason}")
            return {job.instance.instance_id: reason for job in jobs}
        with closing(client):
            missing = self._missing(client, jobs)
        # What an engine says while it goes down is not why something is missing.
        return (
            dict.fromkeys(missing, ENGINE_STOPPED) if missing and not engine_answers() else missing
        )

    def _missing(self, client: Any, jobs: Sequence[Job]) -> dict[str, str]:  # noqa: ANN401
        names = [job.instance.instance_id for job in jobs]
        try:
            self._say_engine(client)
            self._remove_left(client, jobs, "an earlier evaluation")
            self.build(names)
            absent = missing_images({job.instance.image for job in jobs})
            self._say_images(len({job.instance.image for job in jobs}), absent)
            failed = pull_each(client, absent, self.say, self.reserve)
        except engine_error_types(InfrastructureError) as error:
            return dict.fromkeys(names, " ".join(str(error).split())[:300])
        return {
            job.instance.instance_id: failed[job.instance.image]
            for job in jobs
            if job.instance.image in failed
        }

    def _say_engine(self, client: Any) -> None:  # noqa: ANN401
        about = client.info()
        root = Path(str(about["DockerRootDir"]))
        # The engine may run on another machine, whose disk nobody sees from here.
        free = f"{shutil.disk_usage(root).free / _GB:.0f} GB" if root.is_dir() else "unknown space"
        self.say(f"engine: version {about['ServerVersion']}, {free} free in {root}")

    def _say_images(self, wanted: int, absent: Sequence[str]) -> None:
        if not absent:
            self.say(f"images: {wanted} at hand")
            return
        known = self.registries.sizes(absent)
        unknown = len(absent) - len(known)
        words = [f"{sum(known.values()) / _GB:.1f} GB to download"] if known else []
        words += [f"the size of {unknown} is not known"] if unknown else []
        self.say(
            f"images: {wanted - len(absent)} at hand, {len(absent)} to be pulled "
            f"({', '.join(words)})"
        )

    def evaluate(self, jobs: Sequence[Job], run_id: str) -> Iterator[Verdict]:
        """Yield the official verdicts; see ``Evaluator``."""
        images = _digests(job.instance.image for job in jobs)
        try:
            failure = self.swebench.run(jobs, run_id)
        finally:
            answers = self._clean(jobs)
        failure = failure if answers else ENGINE_STOPPED
        for job in jobs:
            verdict = self.swebench.verdict(job, run_id, self.name, failure)
            yield replace(verdict, image=images.get(job.instance.image, ""))

    def _clean(self, jobs: Sequence[Job]) -> bool:
        """Remove what swebench could not remove; return whether the engine answers."""
        client = connect()
        if client is None:
            return False
        with closing(client), suppress(InfrastructureError):
            self._remove_left(client, jobs, "the evaluation")
        return True

    def _remove_left(self, client: Any, jobs: Sequence[Job], whose: str) -> None:  # noqa: ANN401
        for name in remove_named(client, self.swebench.left_containers(jobs)):
            self.say(f"removed what {whose} left: container {name}")


def _digests(images: Iterable[str]) -> dict[str, str]:
    """Return ``NAME@DIGEST`` by name, of what the engine tells."""
    client = connect()
    if client is None:
        return {}
    found: dict[str, str] = {}
    with closing(client), suppress(InfrastructureError):
        for image in sorted({*images}):
            found[image] = f"{image}@{digest(client, image)}"
    return found
