"""Whether an environment can judge: a sample of its tests at the base commit, and past problems."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from swe_retry.core.atomic import write_text_atomic
from swe_retry.core.plaintext import some
from swe_retry.environments.base import BrokenEnvironmentError
from swe_retry.environments.local.buildsteps import error_line
from swe_retry.environments.local.toolchains import find_python, no_python
from swe_retry.instances.instance import Instance
from swe_retry.testing.project import NO_SPEC
from swe_retry.testing.suite import RegressionTests
from swe_retry.testing.testlogs import failed_test_names, passing_tests

_SAMPLE = 3
_TEST_FILE = re.compile(r"(^|/)tests?_[^/]*\.py$|_tests?\.py$|(^|/)tests\.py$")
# pytest ends so where a file has no tests.
_WITHOUT_FAILURE = (0, 5)
_PYTEST_ERROR = re.compile(r"(?m)^E +(\w*(?:Error|Exception)\b.{0,300})")
_MAX_NAMES = 3


def check_sample(tests: RegressionTests, least: float) -> None:
    """Run some test files at the base commit.

    Raises:
        BrokenEnvironmentError: a smaller share than ``least`` of their tests passes.
    """
    files = [path for path in tests.files if _TEST_FILE.search(path)]
    # They lie far apart, because files beside each other often fail for the same reason.
    count = len(files)
    sample = files[count // (2 * _SAMPLE) :: count // _SAMPLE + 1]
    passing = 0
    failing = 0
    broken = ""
    proven = tests.prove_setup({}, sample)
    with tests.open_baselines(proven, sample) as measure:
        for path in sample:
            baseline = measure(path, tests.usable_seconds / _SAMPLE)
            if baseline.timed_out or baseline.exit_code in _WITHOUT_FAILURE:
                failures = 0
            else:
                failures = max(1, len(failed_test_names(baseline.results)))
                broken = path
            passing += len(passing_tests(baseline.results))
            failing += failures
    if passing >= least * (passing + failing):
        return
    with tests.session.prepare({}) as prepared:
        command = tests.test_files.command(broken)
        output = prepared.run(command, tests.usable_seconds).output
    match = _PYTEST_ERROR.search(output)
    cause = match[1] if match else error_line(output)
    raise BrokenEnvironmentError(
        f"only {passing} of {passing + failing} tests of a sample pass at the base commit, less "
        f"than tests.min_passing; {broken}: {cause}"
    )


def note_problem(folder: Path, instance: Instance, cause: str) -> None:
    """Keep why the environment of ``instance`` cannot judge; empty where it can."""
    file = _file(folder, instance)
    if cause:
        write_text_atomic(file, cause)
    else:
        file.unlink(missing_ok=True)


def find_problems(folder: Path, instances: Iterable[Instance]) -> dict[str, str]:
    """Return why local environments cannot judge, by instance, as far as it is known."""
    problems = {}
    interpreter = cache(find_python)
    for instance in instances:
        spec = instance.spec
        if instance.commands is not None:
            continue
        if spec is None or not spec.test_cmd:
            problems[instance.instance_id] = NO_SPEC
        elif interpreter(spec.python) is None:
            problems[instance.instance_id] = no_python(spec.python)
        else:
            with suppress(OSError, UnicodeDecodeError):
                text = _file(folder, instance).read_text(encoding="utf-8")
                problems[instance.instance_id] = text
    return problems


def problem_lines(problems: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each cause, with its instances."""
    names = defaultdict(list)
    for name, cause in problems.items():
        names[cause].append(name)
    for cause, instances in names.items():
        yield f"no tests: {some(instances, _MAX_NAMES)}: {cause}"


def _file(folder: Path, instance: Instance) -> Path:
    return folder / "environments" / "problems" / f"{instance.tested_as}.txt"
