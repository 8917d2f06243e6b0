"""The loop: its quotation, and the face of the package."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from textwrap import dedent

import swe_retry.attempts
from swe_retry.attempts.solve import Solver
from tests.support import TOP


def test_the_loop_is_quoted_whole() -> None:
    text = (TOP / "docs/architecture.md").read_text(encoding="utf-8")
    (quotation,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    # Formatted as functions of a module are.
    sources = []
    for method in (Solver._make_attempts, Solver._choose_patch):
        source = inspect.getsource(method)
        sources.append(dedent(source))
    assert quotation == "\n\n".join(sources)


def test_a_package_loads_none_of_its_modules() -> None:
    code = (
        "import sys, swe_retry.attempts, swe_retry.attempts.evidence\n"
        "print([name for name in sys.modules if name.startswith('swe_retry.a')])\n"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], cwd=TOP, text=True)
    packages = ["swe_retry.attempts", "swe_retry.attempts.evidence"]
    assert printed == f"{packages}\n"
    assert not hasattr(swe_retry.attempts, "nothing")


def test_choosing_loads_nothing_that_works_on_an_instance() -> None:
    code = (
        "import sys\n"
        "from swe_retry.attempts.choose import choose\n"
        "from swe_retry.attempts.stop import stop_reason\n"
        "from swe_retry.attempts.transcript import transcript\n"
        "work = {'swe_retry.attempts.solve', 'swe_retry.repositories.checkout'}\n"
        "print(sorted(work & set(sys.modules)))\n"
        "from swe_retry.attempts.solve import InstanceJob\n"
        "print('swe_retry.attempts.solve' in sys.modules)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.split("\n") == ["[]", "True", ""]
