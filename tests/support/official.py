from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from swe_retry.instances.instance import Instance
from swe_retry.instances.split import Evaluation
from swe_retry.report.evaluation.evaluator import EvaluationTask
from swe_retry.report.evaluation.official import PROGRAMS
from swe_retry.report.evaluation.program import OfficialEvaluator
from swe_retry.results.predictions import Prediction
from swe_retry.results.verdicts import Verdict
from tests.support import tar_of
from tests.support.evaluated import report_settings

BASE = "python:3.11-slim"
RIGHT = "right"
WRONG = "wrong"
CRASH = "crash"
MISSING = "missing"
_BUG = "def add(a, b):\n    return a - b\n"
_TEST = "from calc import add\n\n\ndef test_zero():\n    assert add(1, 0) == 1\n"
_HIDDEN = "\n\ndef test_add():\n    assert add(1, 2) == 3\n"
FULL_TEST = _TEST + _HIDDEN
F2P = "tests/test_calc.py::test_add"
P2P = "tests/test_calc.py::test_zero"


def _patch(path: str, before: str, after: str) -> str:
    old = before.splitlines()
    new = after.splitlines()
    lines = [f"-{line}" for line in old] + [f"+{line}" for line in new]
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return head + f"@@ -1,{len(old)} +1,{len(new)} @@\n" + "\n".join(lines) + "\n"


GOLD = _patch("calc.py", _BUG, _BUG.replace("-", "+"))
TEST_PATCH = _patch("tests/test_calc.py", _TEST, FULL_TEST)
PATCHES = {
    RIGHT: GOLD,
    WRONG: _patch("calc.py", _BUG, _BUG.replace("-", "*")),
    # The test run dies without a result.
    CRASH: _patch("calc.py", _BUG, "import os\n\nos._exit(7)\n"),
}
STATUSES = {RIGHT: "resolved", WRONG: "unresolved", CRASH: "not_evaluated"}
# A repository with one commit, and a conda that does nothing.
_DOCKERFILE = """\
FROM {base}
COPY calc.py {folder}/calc.py
COPY test_calc.py {folder}/tests/test_calc.py
RUN mkdir -p /opt/miniconda3/bin && touch /opt/miniconda3/bin/activate \\
 && printf '#!/bin/sh\\n' > /usr/local/bin/conda && chmod +x /usr/local/bin/conda
WORKDIR {folder}
ENV PYTHONPATH={folder} PYTHONDONTWRITEBYTECODE=1 PIP_NO_INDEX=1
RUN git config --global user.email t@example.org && git config --global user.name t \\
 && git config --global --add safe.directory '*' \\
 && git init -q . && git add -A && git commit -qm base
{extra_lines}
"""


@contextmanager
def image(
    names: Sequence[str],
    folder: str,
    extra_lines: str = "",
    files: Mapping[str, str] | None = None,
) -> Iterator[Any]:
    """Build an image under ``names``, and remove what was not there before."""
    import docker

    client = docker.from_env(timeout=600)
    dockerfile = _DOCKERFILE.format(base=BASE, folder=folder, extra_lines=extra_lines)
    content = {
        "calc.py": _BUG,
        "test_calc.py": _TEST,
        "Dockerfile": dockerfile,
        **(files or {}),
    }
    built, _ = client.images.build(
        fileobj=io.BytesIO(tar_of(content)), custom_context=True, rm=True
    )
    try:
        for name in names:
            assert built.tag(name)
        yield built
    finally:
        for name in names:
            client.images.remove(name, force=True)
        client.close()


def remove_container(name: str) -> None:
    """Remove the container ``name``, if there is one."""
    import docker

    client = docker.from_env()
    with suppress(docker.errors.NotFound):
        client.containers.get(name).remove(force=True)
    client.close()


def task(
    row: Mapping[str, Any],
    patch: str,
    name: str,
    image: str,
) -> EvaluationTask:
    """Return the task of a prediction; its instance has a neutral id."""
    own = str(row.get("instance_id") or name)
    instance = Instance(name, "own/calc", "0" * 40, "It is wrong.", "", image)
    hidden = Evaluation(own, GOLD, TEST_PATCH, (F2P,), (P2P,), "", row)
    return EvaluationTask(Prediction(name, "me/too", patch), instance, hidden)


def evaluator(
    name: str,
    folder: Path,
    say: Callable[[str], None] = print,
    kind: type[OfficialEvaluator] | None = None,
    dataset: str = "",
    **changes: Any,
) -> OfficialEvaluator:
    """Return an evaluator with its files in ``folder``; ``changes`` are of the settings."""
    return (kind or PROGRAMS[name])(
        name=name,
        folder=folder,
        settings=report_settings(folder.parent / "cache", name, **changes),
        dataset=dataset,
        split="test",
        say=say,
    )


def evaluated(
    program: OfficialEvaluator, tasks: Sequence[EvaluationTask]
) -> dict[str, Verdict]:
    """Return the verdicts on ``tasks`` by the neutral id."""
    assert program.prepare(tasks) == {}
    return {v.instance_id: v for v in program.evaluate(tasks, "run-1")}


def statuses(verdicts: Mapping[str, Verdict]) -> dict[str, str]:
    return {name: verdict.status.value for name, verdict in verdicts.items()}
