"""The half of an instance that the harness may know. No hidden value has a place in it.

``Instance.bug`` is the one exception: the reverse of the patch that plants a bug is the fix. It is
used to make the buggy tree and its container, and nothing prints it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench.instances.evalscript import TestSetup
from environments.base import ANY_PYTHON

__all__ = ["ImagePlace", "Instance", "Spec", "TestSetup", "derived_image"]


@dataclass(frozen=True)
class Spec:
    """How SWE-bench installs and tests one version of a repository (its ``MAP_REPO_VERSION``)."""

    python: str = ANY_PYTHON
    packages: str = ""
    pip_packages: tuple[str, ...] = ()
    pre_install: tuple[str, ...] = ()
    install: str = ""
    test_cmd: str = ""

    @classmethod
    def of(cls, raw: object) -> Spec:
        """Read a row's ``spec``, a mapping or its JSON text; unknown keys are left out."""
        raw = json.loads(raw) if isinstance(raw, str) else raw
        if not isinstance(raw, Mapping):
            raise ValueError("not a mapping")
        command = raw.get("test_cmd") or ""
        return cls(
            python=str(raw.get("python", ANY_PYTHON)),
            packages=str(raw.get("packages") or ""),
            pip_packages=tuple(raw.get("pip_packages") or ()),
            pre_install=tuple(raw.get("pre_install") or ()),
            install=str(raw.get("install") or ""),
            test_cmd=str(command[-1] if isinstance(command, list) else command),
        )


@dataclass(frozen=True)
class ImagePlace:
    """Where a set's images hold the repository, and how commands run in them.

    The image's own entry point never runs.

    Attributes:
        folder: absolute path of the repository.
        user: that commands run as; empty for the image's.
        activation: shell lines before all others, such as ``conda activate testbed``.
        keeps_home: ``HOME`` stays the image's: caches of Go, Maven or Cargo are below it.
        one_commit: the repository in the image shows later commits, so it is replaced by one
            that has a single commit before anything runs.
        fresh_tree: the image's files are not those of the base commit, so its tracked files are
            replaced before anything runs.
        removed: absolute paths of files with hidden data, removed before anything runs.
    """

    folder: str = "/testbed"
    user: str = ""
    activation: tuple[str, ...] = ()
    keeps_home: bool = False
    one_commit: bool = False
    fresh_tree: bool = False
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Instance:
    """One problem: what the harness may know of it.

    Attributes:
        instance_id: names it everywhere; a neutral one where the set's own id shows hidden data.
        log_parser: the set's name of the parser for test output; may be unknown here.
        test_setup: how pre-existing tests run in the image; None where the row does not say.
        place: how the image is laid out.
        set_name: the task set that the row was recognized as, for messages.
        parser_source: Python that defines ``parser(log)``, which returns a status by test. It is
            foreign code: run it in an environment only.
        bug: a patch that is applied to ``base_commit`` to make the tree that is worked on.
        image_label: stands for ``image`` in files of the run where its name shows hidden data.
    """

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    version: str
    image: str
    log_parser: str = ""
    spec: Spec | None = None
    test_setup: TestSetup | None = None
    place: ImagePlace = ImagePlace()
    set_name: str = ""
    language: str = ""
    created_at: str = ""
    image_urls: tuple[str, ...] = ()
    parser_source: str = field(default="", repr=False)
    bug: str = field(default="", repr=False)
    image_label: str = ""

    @property
    def shown_image(self) -> str:
        return self.image_label or self.image


def derived_image(instance_id: str) -> str:
    """Return the official image for an instance whose row names none (as in swebench 5)."""
    return f"swebench/sweb.eval.x86_64.{instance_id.lower().replace('__', '_1776_')}:latest"
