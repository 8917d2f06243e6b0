"""The order in which instances start that share layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.attempts import InstanceJob
from bench.benchmark import InstanceBenchmark, group_by_layers, used_images
from bench.instances.dataset import Dataset
from bench.options import Options
from environments.base import EnvironmentKind
from runs.storage.store import RunStore
from tests.conftest import an_instance
from tests.support.runs import config, options

NAMES = ("a/b@1:1", "a/b@2:2", "a/b@1:3", "c/d@1:4", "a/b@2:5", "c/d@1:6")


def jobs() -> list[InstanceJob]:
    made = []
    for name in NAMES:
        repo, _, rest = name.partition("@")
        version, _, number = rest.partition(":")
        key = f"{repo.replace('/', '__')}-{number}"
        made.append(
            InstanceJob(an_instance(instance_id=key, repo=repo, version=version))
        )
    return made


def benchmark(
    limits: Options, environment: EnvironmentKind = EnvironmentKind.DOCKER
) -> InstanceBenchmark:
    run = config(environment=environment)
    store = RunStore(limits.out, "r")
    return InstanceBenchmark(
        run, limits, store, lambda _: None, Dataset("d", "test", ()), ()
    )


def numbers(ordered: list[InstanceJob]) -> str:
    return "".join(job.key[-1] for job in ordered)


def test_instances_of_one_version_come_after_each_other() -> None:
    assert numbers(group_by_layers(jobs())) == "132546"


@pytest.mark.parametrize(("limit", "order"), [(None, "641235"), (10**9, "642513")])
def test_the_longest_comes_first_and_brings_its_neighbours(
    tmp_path: Path, limit: int | None, order: str
) -> None:
    limits = options(tmp_path, tmp_path, images=limit)
    use = benchmark(limits)
    seconds = {job.key: 10.0 for job in jobs()} | {"c__d-6": 99.0, "c__d-4": 50.0}
    seconds |= {"a__b-2": 20.0} if limit else {}
    assert numbers([*use.order(jobs(), seconds)]) == order


@pytest.mark.parametrize("ray", ["", "own"])
@pytest.mark.parametrize("limit", [None, 10**9])
def test_images_without_a_known_runner_are_not_pulled(
    tmp_path: Path, ray: str, limit: int | None
) -> None:
    limits = options(tmp_path, tmp_path, images=limit, ray=ray)
    lines: list[str] = []
    instances = [job.instance for job in jobs()]
    assert used_images(instances) == []
    use = benchmark(limits)
    assert use.prepare_jobs(jobs(), lines.append) == jobs()
    assert lines == [
        "not pulled: images of 6 instances whose rows have no usable eval_script"
    ]


def test_nothing_is_said_of_images_where_none_is_used(tmp_path: Path) -> None:
    lines: list[str] = []
    use = benchmark(options(tmp_path, tmp_path), EnvironmentKind.NONE)
    assert use.prepare_jobs(jobs(), lines.append) == jobs()
    assert lines == []
