"""What nodes of a cluster get of the code, in which the exercises lie beside the house."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ray")

from swe_retry.runner.ray.engine import _copy_code
from swe_retry_exercises.canitedit.generation import CompletionBenchmark
from swe_retry_exercises.exercism.run import ExerciseBenchmark

pytestmark = pytest.mark.ray


@pytest.mark.parametrize("benchmark", [CompletionBenchmark, ExerciseBenchmark])
def test_the_code_of_a_benchmark_travels_with_its_run(
    benchmark: type[CompletionBenchmark | ExerciseBenchmark], tmp_path: Path
) -> None:
    code = _copy_code(benchmark.packages, tmp_path)
    module = benchmark.__module__.replace(".", "/")
    for name in (f"{module}.py", "swe_retry/agent/builtin.py", "swe_retry/kit.py"):
        assert (code / name).is_file()
