"""The linter for one instance: with the compiler of the Python that the instance runs on."""

from __future__ import annotations

from agent.lint import InterpreterCompiler, Linter
from bench.environments.venvs import find_python
from bench.instances import Instance


def linter_for(instance: Instance) -> Linter:
    """Return a linter that compiles with the interpreter which the instance's spec names.

    Any interpreter of that version on this machine will do, whatever environment runs the tests:
    code is only compiled. Without one the harness's own compiler judges.
    """
    version = instance.spec.python if instance.spec else ""
    python = find_python(version) if version else None
    return Linter(InterpreterCompiler(python) if python else None)
