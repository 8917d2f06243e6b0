"""The order in which instances start that share layers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from swe_retry.attempts.benchmark import InstanceBenchmark, group_by_layers, used_images
from swe_retry.attempts.solve import InstanceJob
from swe_retry.environments.base import EnvironmentKind
from swe_retry.instances.dataset import Dataset
from swe_retry.record.store import RunStore
from tests.fixtures import an_instance
from tests.support.runs import Start, config, options

# Repository, version and number.
ROWS = (
    ("a/b", "1", 1),
    ("a/b", "2", 2),
    ("a/b", "1", 3),
    ("c/d", "1", 4),
    ("a/b", "2", 5),
    ("c/d", "1", 6),
)


def make_jobs() -> list[InstanceJob]:
    jobs = []
    for repo, version, number in ROWS:
        key = f"{repo.replace('/', '__')}-{number}"
        instance = an_instance(instance_id=key, repo=repo, version=version)
        jobs.append(InstanceJob(instance))
    return jobs


def benchmark(
    limits: Start,
    environment: EnvironmentKind = EnvironmentKind.DOCKER,
) -> InstanceBenchmark:
    run = limits.of(config(environment=environment))
    return InstanceBenchmark(
        run,
        RunStore(run.out, "r"),
        lambda _: None,
        Dataset("d", "test", ()),
        (),
    )


def numbers_of(jobs: Iterable[InstanceJob]) -> str:
    return "".join(job.key[-1] for job in jobs)


def test_instances_of_one_version_come_after_each_other() -> None:
    ordered = group_by_layers(make_jobs())
    assert numbers_of(ordered) == "132546"


@pytest.mark.parametrize(
    ("limit", "order"),
    [
        (None, "641235"),
        (10**9, "642513"),
    ],
)
def test_the_longest_comes_first_and_brings_its_neighbours(
    tmp_path: Path, limit: int | None, order: str
) -> None:
    limits = options(tmp_path, tmp_path, images=limit)
    use = benchmark(limits)
    jobs = make_jobs()
    seconds = {job.key: 10.0 for job in jobs}
    seconds["c__d-6"] = 99.0
    seconds["c__d-4"] = 50.0
    if limit:
        seconds["a__b-2"] = 20.0
    ordered = use.order(jobs, seconds)
    assert numbers_of(ordered) == order


@pytest.mark.parametrize("ray", ["", "own"])
@pytest.mark.parametrize("limit", [None, 10**9])
def test_images_without_a_known_runner_are_not_pulled(
    tmp_path: Path, ray: str, limit: int | None
) -> None:
    limits = options(tmp_path, tmp_path, images=limit, ray=ray)
    lines: list[str] = []
    jobs = make_jobs()
    instances = [job.instance for job in jobs]
    assert used_images(instances) == []
    use = benchmark(limits)
    assert use.prepare_jobs(jobs, lines.append) == make_jobs()
    assert lines == [
        "not pulled: images of 6 instances whose rows have no usable eval_script"
    ]


def test_nothing_is_said_of_images_where_none_is_used(tmp_path: Path) -> None:
    lines: list[str] = []
    use = benchmark(options(tmp_path, tmp_path), EnvironmentKind.NONE)
    prepared = use.prepare_jobs(make_jobs(), lines.append)
    assert prepared == make_jobs()
    assert lines == []
