"""A script counts as passed if its own code says so: not where a candidate ends the process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from swe_retry.attempts.evidence.running import ScriptRun
from swe_retry.attempts.evidence.scripts import language_of_runner
from swe_retry.core.processes import CommandResult
from swe_retry.frameworks import Runner


@dataclass(frozen=True)
class Programs:
    """How a language writes a module, scripts about it, and modules that end the process.

    Attributes:
        script: with a placeholder for what follows the call of the module.
        ends: statements that end a script, and its exit code.
        forged: bodies of the module's function with which no script passes.
    """

    module: str
    text: str
    script: str
    ends: Sequence[tuple[str, int]]
    forged: Sequence[str]
    nothing: str = ""


PYTHON = Programs(
    module="lib.py",
    text="import os, sys\n\ndef f():\n    BODY\n",
    script="import sys\nfrom lib import f\n\nf()\nEND\n",
    ends=[
        ("", 0),
        ("sys.exit(0)", 0),
        ("exit()", 0),
        ("raise SystemExit(2)", 2),
        ("raise ValueError", 1),
    ],
    forged=["os._exit(0)", "sys.exit(0)", "raise SystemExit", "exit(0)"],
    nothing="pass",
)
JAVASCRIPT = Programs(
    module="lib.js",
    text="exports.f = () => { BODY };\n",
    script='const { f } = require("./lib.js");\n\nf();\nEND\n',
    ends=[
        ("", 0),
        ("process.exit(0);", 0),
        ("process.exit();", 0),
        ("setTimeout(() => process.exit(0), 5);", 0),
        ("(async () => { await null; process.exit(0); })();", 0),
        ("if (require.main === module) process.exit(2);", 2),
        ("process.exitCode = 2;", 2),
        ("process.exitCode = 2; process.exit();", 2),
        ("throw new Error();", 1),
    ],
    forged=[
        "process.exit(0)",
        "process.exit()",
        "Error.stackTraceLimit = 0; process.exit()",
        "Error.prepareStackTrace = () => `\\n\\n${require.main.filename}`; process.exit()",
        'require("process").exit(0)',
        "process.reallyExit(0)",
        'process.on("uncaughtException", () => process.exit(0)); throw 0',
    ],
)
RUBY = Programs(
    module="lib.rb",
    text="def f\n  BODY\nend\n",
    script='require "./lib"\n\nf\nEND\n',
    ends=[
        ("", 0),
        ("exit", 0),
        ("exit 0", 0),
        ("exit 2 if __FILE__ == $0", 2),
        ("$stdout = File.open(File::NULL, 'w')\nexit true", 0),
        ("raise 'no'", 1),
    ],
    forged=["exit", "exit 0", "exit! 0", "raise SystemExit", "Process.exit(true)"],
)
PHP = Programs(
    module="lib.php",
    text="<?php\nfunction f() { BODY; }\n",
    script='<?php\nnamespace Issue;\n\nrequire __DIR__ . "/lib.php";\n\\f();\nEND\n',
    ends=[
        ("", 0),
        ("exit;", 0),
        ("exit(0);", 0),
        ("exit('solved');", 0),
        ("function g() { die(0); }\ng();", 0),
        ("false or exit(2);", 2),
        ("exit(true ? 2 : 0);", 2),
        ("return;", 0),
        ("throw new \\Exception();", 255),
    ],
    forged=[
        "exit",
        "exit(0)",
        "die('solved')",
        "register_shutdown_function('f') and die",
    ],
)
LANGUAGES = {
    Runner.PYTEST: PYTHON,
    Runner.JEST: JAVASCRIPT,
    Runner.RSPEC: RUBY,
    Runner.PHPUNIT: PHP,
}


def exit_code(runner: Runner, programs: Programs, body: str, end: str) -> int | None:
    language = language_of_runner(runner)
    assert language
    folder = Path.cwd()
    module = programs.text.replace("BODY", body)
    (folder / programs.module).write_text(module)
    run = ScriptRun(language)
    script = programs.script.replace("END", end)
    files = run.files(script.encode())
    for name, data in files.items():
        (folder / name).write_bytes(data)
    process = subprocess.run(
        ["bash", "-c", run.command],
        capture_output=True,
        text=True,
        check=False,
    )
    output = process.stdout + process.stderr
    result = CommandResult(output, process.returncode, seconds=0.0)
    return run.exit_code(result)


@pytest.fixture(params=LANGUAGES)
def runner(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Runner:
    monkeypatch.chdir(tmp_path)
    runner: Runner = request.param
    language = language_of_runner(runner)
    assert language
    program = language.command.split()[0]
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed")
    return runner


def test_a_script_says_itself_how_it_ends(runner: Runner) -> None:
    programs = LANGUAGES[runner]
    ends = []
    for end, _ in programs.ends:
        code = exit_code(runner, programs, programs.nothing, end)
        ends.append((end, code))
    assert ends == list(programs.ends)


def test_a_candidate_that_ends_the_process_passes_nothing(runner: Runner) -> None:
    programs = LANGUAGES[runner]
    passed = []
    for body in programs.forged:
        if exit_code(runner, programs, body, "") == 0:
            passed.append(body)
    assert not passed
