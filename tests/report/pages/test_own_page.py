"""The page and the report of a run on one's own repository."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import Preloaded
from tests.support.ownworld import (
    FILES,
    RIGHT,
    WRONG,
    World,
    make_repository,
    run_git,
)
from tests.support.pages import ATTACK, Texts, texts
from tests.support.reported import report_run

_OF_BENCHMARKS = ("not evaluated", "resolved", "Verdict", "verdict", "SWE-bench")


def test_an_own_run_tells_of_its_issue_and_not_of_a_benchmark(
    tmp_path: Path, cache: Path, preloaded: Preloaded
) -> None:
    world = World(tmp_path, cache, preloaded)
    broken = "def test_broken():\n    assert False\n"
    files = {**FILES, "tests/test_other.py": broken}
    calc = make_repository(tmp_path / "calc", files)
    world.record("local/calc", WRONG, RIGHT)
    options = ["--environment", "local", "--setup-cmd", "true", "--test-cmd", "pytest"]
    output = world.start(calc, *options).stdout
    page = world.run / "report/report.html"
    assert f"page:    {page}, after: python report.py {world.run}" in output

    printed = report_run(world.run, cache, page=True)
    (instance,) = (page.parent / "instances").iterdir()
    summary = (
        "plausible: attempt 2 is plausible",
        "Agent: builtin; models: a, b",
        "2 pass, 1 fail",
        "Tests after: all tests: 2 pass, 1 fail",
        "git apply",
    )
    for text in (printed.text, texts(page)):
        plain = text.replace("*", "").casefold()
        for part in summary:
            assert part.casefold() in plain
        assert "add subtracts" in text
    assert "<h1>add subtracts</h1>" in page.read_text()
    assert "<h1>add subtracts</h1>" in instance.read_text()
    instance_text, _, _ = texts(instance).partition("Provenance")
    for text in (printed.text, texts(page), instance_text):
        for word in _OF_BENCHMARKS:
            assert word not in text
    # The bar of a warning.
    assert 'class="note"' not in page.read_text() + instance.read_text()
    (command,) = printed.starting("apply")
    run_git(calc, *command.split()[2:])
    assert "return a + b" in (calc / "lib/calc.py").read_text()


def test_a_summary_is_no_html(
    tmp_path: Path, cache: Path, preloaded: Preloaded
) -> None:
    """An issue may come from anybody."""
    world = World(tmp_path, cache, preloaded)
    calc = make_repository(tmp_path / "calc")
    world.record("local/calc", RIGHT, issue=ATTACK)
    untested = ("--environment", "none", "--set", "tests.required=false")
    world.start(calc, *untested, "--issue", ATTACK)
    report_run(world.run, cache, page=True)
    page = Texts((world.run / "report/report.html").read_text())
    assert ATTACK[:60] in "".join(page.texts)
    assert not {"script", "img", "svg"}.intersection(page.elements)
