"""Base, broken and correct candidates of every task set, in its image, in a real engine."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.conversation.testreport import describe
from swe_retry.agent.workspace import Workspace
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.git import git
from swe_retry.environments.base import UnavailableError
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.environment import DockerEnvironment
from swe_retry.instances.instance import Instance, TestSetup
from swe_retry.instances.split import split_row
from swe_retry.repositories.checkout import Checkout, make_checkout
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.testing.project import hide_image_names, project_of, snapshot_of
from swe_retry.testing.suite import RegressionTests
from swe_retry.testing.testsettings import TestChoice, Tests
from tests.support import write_files
from tests.support.task_sets import (
    BROKEN,
    CORRECT,
    FILES,
    FIXED,
    ROWS,
    built,
    history,
    mirror_of,
)

DOUBLE = "tests/test_core.py::test_double"
PYTEST = "python -m pytest -rA -p no:cacheprovider"
# Commands and parsers that run in the tiny images, in place of other languages' tools.
CHANGES: dict[str, dict[str, Any]] = {
    "multilang": {
        "rebuild_cmds": ["test -d /testbed && export BUILT=1"],
        "test_cmds": [f"{PYTEST} >/tmp/log 2>&1"],
        "print_cmds": ["cat /tmp/log"],
    },
    "rebench": {
        "install_config": {"install": "test -n $CONDA_DEFAULT_ENV", "test_cmd": PYTEST}
    },
    "rebench-v2": {"language": "python", "install_config": {"test_cmd": [PYTEST]}},
    "multi": {"lang": "go"},
}
# A whole run on SWE-bench Pro in its image is in test_set_leaks.py.
SETS = ("smith", "pro", "live", "multilang", "rebench", "rebench-v2", "gym", "multi")
RUN_ALL = f"#!/bin/bash\nset -e\ncd /home/thing\n{PYTEST}\n"
HIDDEN = {
    "home/fix.patch": "ZQHIDDEN",
    "home/test.patch": "ZQHIDDEN",
    "home/run.sh": RUN_ALL,
}


def instance_of(name: str, base: str, later: str) -> Instance:
    """Return the instance of a set at ``base``; smith's bug undoes the fix of ``later``."""
    row = ROWS[name] | CHANGES.get(name, {})
    row["base_commit"] = base
    if name == "multi":
        row["base"] = {"sha": base}
    if name == "smith":
        row["base_commit"] = later
    instance, _ = split_row(row)
    return instance


@pytest.fixture
def layout(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The instance of a set, its checkout, and its image in the engine."""
    name = request.param
    repository = tmp_path / "repository"
    base, later = history(repository)
    instance = instance_of(name, base, later)
    if name == "smith":
        bug = git("diff", later, base, cwd=repository).decode()
        instance = replace(instance, bug=bug)
    mirror = instance.repo.replace("/", "__")
    mirror_of(repository, tmp_path / f"mirrors/{mirror}.git")
    if not instance.layout.fresh_tree:
        git("checkout", "--quiet", base, cwd=repository)
    write_files(repository, {"left_by_the_image": "built\n"})
    snapshots = tmp_path / "snapshots"
    snapshot = snapshot_of(instance, Mirrors(tmp_path / "mirrors"), snapshots)
    checkout = make_checkout(snapshot, tmp_path / "checkout")
    folder = instance.layout.folder
    keeps_home = instance.layout.keeps_home
    with built(instance.image, folder, repository, HIDDEN, keeps_home=keeps_home):
        yield instance, checkout, tmp_path


def regression_of(
    instance: Instance, checkout: Checkout, cache: Path, session: Any
) -> RegressionTests:
    return RegressionTests(
        instance=instance,
        session=session,
        choice=TestChoice.RELATED,
        limits=Tests(timeout=60, baseline_timeout=120),
        files=checkout.tracked_files(),
        read=Workspace(checkout.root).read,
        cache=cache / "baselines",
        identity=session.identity,
        log=logging.getLogger("test"),
    )


@pytest.mark.docker
@pytest.mark.long
@pytest.mark.parametrize("layout", SETS, indirect=True)
def test_candidates_of_every_set_in_its_image(
    layout: tuple[Instance, Checkout, Path],
) -> None:
    instance, checkout, folder = layout
    core = (checkout.root / "core.py").read_text()
    assert core == FILES["core.py"], "the tree has the bug"
    client = connect()
    environment = DockerEnvironment(client, "sets")
    session = environment.start(project_of(instance, checkout))
    image_id = session.cleaned  # type: ignore[attr-defined]
    try:
        show = setup_of(instance).show
        command = " ; ".join([session.test_command, *show])
        with session.prepare({}) as prepared:
            assert_nothing_hidden(prepared, instance)
            base = prepared.run(command, 60).output
        assert f"PASSED {DOUBLE}" in base or f"{DOUBLE} PASSED" in base, base
        assert "FAILED" not in base, base
        tests = regression_of(instance, checkout, folder, session)
        broken = tests.run({"core.py": BROKEN.encode()})
        assert broken.outcome is False, broken.untested
        assert "test_double" in describe(broken.failures)
        correct = tests.run({"core.py": CORRECT.encode(), "new.py": b"x = 1\n"})
        failures = describe(correct.failures)
        assert correct.outcome is True, (failures, correct.untested)
    finally:
        session.stop()
    image_ids = [image.id for image in client.images.list()]  # type: ignore[union-attr]
    assert image_id not in image_ids


def setup_of(instance: Instance) -> TestSetup:
    assert instance.test_setup is not None
    return instance.test_setup


def assert_nothing_hidden(prepared: Any, instance: Instance) -> None:
    """Neither history nor files of the image show the fix; what the image built stays."""
    folder = instance.layout.folder
    look = (
        "git -c safe.directory='*' log --all -p | cat; git -c safe.directory='*' status --short;"
        "git -c safe.directory='*' describe --tags; ls -l . /home; cat left_by_the_image; pwd; "
        f"readlink link; head -n 2 core.py; grep -rl ZQHIDDEN {folder} /home /opt; id -un"
    )
    output = prepared.run(look, 60).output
    print(output)
    assert "ZQHIDDEN" not in output
    if instance.layout.removed:
        assert "fix.patch" not in output
    assert output.count("\nAuthor: ") == 1
    for line in ("built", folder, "core.py", "    return a - b"):
        ended = f"{line}\n" in output
        assert ended or line in output.splitlines(), (line, output)
    if not instance.layout.fresh_tree:
        assert "v1" in output


@pytest.mark.docker
@pytest.mark.long
@pytest.mark.parametrize("layout", ["live"], indirect=True)
def test_users_and_images_without_a_repository(
    layout: tuple[Instance, Checkout, Path],
) -> None:
    instance, checkout, _ = layout
    environment = DockerEnvironment(connect(), "sets")
    layout_of_nobody = replace(instance.layout, user="nobody")
    of_nobody = replace(instance, layout=layout_of_nobody)
    session = environment.start(project_of(of_nobody, checkout))
    try:
        with session.prepare({"core.py": FIXED.encode()}) as prepared:
            output = prepared.run("id -un; pwd", 60).output
        assert output.split() == ["nobody", "/testbed"]
    finally:
        session.stop()
    layout_elsewhere = replace(instance.layout, folder="/nowhere")
    elsewhere = replace(instance, layout=layout_elsewhere)
    with pytest.raises(UnavailableError, match="no repository in /nowhere"):
        environment.start(project_of(elsewhere, checkout))


@pytest.mark.docker
def test_a_pull_that_fails_names_the_image_as_it_is_shown(tmp_path: Path) -> None:
    """A name of SWE-bench Pro's images holds the gold commit, and this ends in a log."""
    base, _ = history(tmp_path / "repository")
    image = "127.0.0.1:9/gold:ZQHIDDEN"
    instance = replace(instance_of("pro", base, ""), image=image)
    mirror_of(tmp_path / "repository", tmp_path / "Own__Thing.git")
    snapshots = tmp_path / "snapshots"
    snapshot = snapshot_of(instance, Mirrors(tmp_path), snapshots)
    checkout = make_checkout(snapshot, tmp_path / "checkout")
    environment = DockerEnvironment(connect(), "sets")
    message = "cannot pull jefzda/sweap-images:Own__Thing-"
    with pytest.raises(InfrastructureError, match=message):
        environment.start(project_of(instance, checkout))
    other = replace(instance, image="x:GOLD", image_label="x:neutral")
    text = hide_image_names(f"pull x:GOLD and {image}", [other, instance])
    assert text == f"pull x:neutral and {instance.shown_image}"
