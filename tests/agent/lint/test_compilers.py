"""Other interpreters as compilers: real ones, if installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from swe_retry.agent.lint.compilers import (
    CompilerFailedError,
    InterpreterCompiler,
    OwnCompiler,
    RememberingCompiler,
)
from swe_retry.agent.lint.findings import Change, Finding
from swe_retry.agent.lint.linter import Linter
from swe_retry.environments.local.toolchains import find_python
from swe_retry.instances.instance import Spec
from swe_retry.testing.lintcommand import linter_for
from tests.fixtures import an_instance

FILES = [
    ("good.py", "x = 1\n"),
    ("bad.py", "x = 1\nx = = 2\n"),
    ("cookie.py", "# -*- coding: euc-jp -*-\nx = '日本'\n"),
    ("unknown.py", "# -*- coding: nonsense -*-\nx = 1\n"),
    ("null.py", "x = '\0'\n"),
    ("escape.py", "'\\d'\n"),
]


# Our interpreter, as a process.
OURS = InterpreterCompiler(Path(sys.executable))


def python(version: str) -> Path:
    interpreter = find_python(version)
    if interpreter is None:
        pytest.skip(f"no Python {version} here")
    return interpreter


@pytest.mark.parametrize("version", ["3.6", "3.8", "3.11", "3.13"])
def test_the_verdicts_of_other_versions(version: str) -> None:
    compiler = InterpreterCompiler(python(version))
    good, bad, cookie, unknown, null, escape = compiler.check(FILES)
    assert good is None
    assert cookie is None
    assert escape is None
    assert bad is not None
    assert bad.path == "bad.py"
    assert bad.line == 2
    assert bad.problem == f"SyntaxError: invalid syntax (Python {version})"
    assert unknown is not None
    assert null is not None


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("3.6", "async = 1\n"),
        ("3.8", "if (n := 1): pass\n"),
        ("3.10", "match x:\n    case 1: pass\n"),
    ],
)
def test_each_version_has_its_own_grammar(version: str, text: str) -> None:
    compiler = InterpreterCompiler(python(version))
    assert compiler.check([("a.py", text)]) == [None]


def test_new_syntax_is_fatal_where_the_project_runs_on_an_old_python() -> None:
    change = Change("a.py", "x = 1\n", "match 1:\n    case 1: pass\n")
    assert Linter().new_findings([change]) == ()
    old = Linter(InterpreterCompiler(python("3.8")))
    (finding,) = old.new_findings([change])
    assert "(Python 3.8)" in finding.problem


def test_nothing_of_the_file_is_run_and_nothing_is_read_from_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = f"open({str(tmp_path / 'was-run')!r}, 'w')\n"
    for name in ("json.py", "base64.py", "sitecustomize.py", "usercustomize.py"):
        (tmp_path / name).write_text(trap)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    before = set(tmp_path.iterdir())
    assert OURS.check([("a.py", trap)]) == [None]
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    "script",
    ["exec sleep 60", "exit 3", "echo nonsense", "kill -9 $$", "echo '[\"3.9\", []]'"],
)
def test_a_compiler_that_fails_has_no_verdict_and_ours_judges(
    tmp_path: Path, script: str
) -> None:
    bad = tmp_path / "python"
    bad.write_text(f"#!/bin/sh\n{script}\n")
    bad.chmod(0o755)
    change = Change("a.py", "x = 1\n", "x = = 1\n")
    for program in (bad, tmp_path / "missing"):
        compiler = InterpreterCompiler(program, seconds=0.5)
        with pytest.raises(CompilerFailedError):
            compiler.check(FILES)
        (finding,) = Linter(compiler).new_findings([change])
        assert finding.problem == "SyntaxError: invalid syntax"


def test_ours_gives_the_same_verdicts() -> None:
    # In this process the text is decoded already, so a cookie has no effect.
    files = FILES[:3]
    own = OwnCompiler().check(files)
    for finding, other in zip(own, OURS.check(files), strict=True):
        assert bool(finding) == bool(other)


def linter_of(version: str) -> Linter:
    spec = Spec.of({"python": version, "test_cmd": "pytest"})
    return linter_for(an_instance(spec=spec))


def test_our_own_version_needs_no_process_and_gives_the_same_findings() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    own = OwnCompiler(version)
    assert linter_of(version).compiler == RememberingCompiler(own)
    deep = "(" * 5000 + ")" * 5000
    files = [*FILES, ("nul.py", "x = '\0'\n"), ("deep.py", deep)]
    findings = OURS.check(files)
    assert own.check(files) == findings
    assert any(findings)


def test_a_text_is_compiled_once() -> None:
    compiled: list[tuple[str, str]] = []

    class Noting(OwnCompiler):
        def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
            compiled.extend(files)
            return super().check(files)

    compiler = RememberingCompiler(Noting())
    good = ("a.py", "x = 1\n")
    bad = ("a.py", "x = = 1\n")
    other = ("b.py", "x = = 1\n")
    first = compiler.check([good, bad, good])
    second = compiler.check([bad, other, good])
    assert compiled == [good, bad, other]
    assert first == [None, first[1], None]
    assert [f and f.path for f in second] == ["a.py", "b.py", None]


def test_an_instance_brings_the_version_of_its_spec() -> None:
    compiler = InterpreterCompiler(python("3.8"))
    assert linter_of("3.8").compiler == RememberingCompiler(compiler)
    assert linter_for(an_instance()) == Linter()
    assert linter_for(an_instance(spec=Spec.of({"python": "1.5"}))) == Linter()
