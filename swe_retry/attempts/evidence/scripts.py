"""Scripts that tell whether an issue is there: their languages, prompts and replies. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from swe_retry.agent.formats.reading.fences import fence_of, shortest_fence
from swe_retry.agent.prompts import render
from swe_retry.agent.workspace import TextFile
from swe_retry.frameworks import OF_PYTHON, Runner

_MAX_SCRIPT = 100_000
_NAME_IN_PROMPTS = "script_1"
_MAX_FILE = 20_000
_MAX_FILES = 60_000


@dataclass(frozen=True)
class ScriptLanguage:
    """How scripts of a language are run.

    Attributes:
        suffix: of their files.
        command: runs one; ``{0}`` is its file.
        wrapper: the text of a program with the same suffix that runs one, and prints a word if
            the script itself said that the issue is solved; empty where there is none.
    """

    suffix: str
    command: str
    wrapper: str = ""

    def file(self, name: str) -> str:
        return f"issue_{name}{self.suffix}"

    def run(self, name: str) -> str:
        return self.command.format(self.file(name))

    def wrap(self, name: str, word: str) -> bytes:
        """Return the wrapper of a script, which prints ``word``."""
        text = self.wrapper.format(file=self.file(name), word=word)
        return text.encode()


# A candidate that ends the process with 0 would pass every script that imports it. So the exit must
# come from the script's own code, or its end be reached.
_PYTHON_WRAPPER = """import os
import runpy
import sys
import traceback

os.unlink(__file__)
script = {file!r}
code = 0
try:
    runpy.run_path(script, run_name="__main__")
except SystemExit as end:
    code = end.code
    files = [frame.filename for frame in traceback.extract_tb(end.__traceback__)]
    # exit() is a function of its own.
    callers = [file for file in files if "_sitebuiltins" not in file]
    if callers[-1] != script:
        code = 1
if not code:
    print("\\n{word}", flush=True)
sys.exit(code)
"""
PYTHON = ScriptLanguage(".py", "python {0}", _PYTHON_WRAPPER)
_JAVASCRIPT_WRAPPER = """const {{ unlinkSync, writeSync }} = require("fs");
const script = require("path").resolve({file!r});
const exit = process.exit;

function prove(code) {{
  if (!Number(code)) writeSync(1, "\\n{word}\\n");
}}

unlinkSync(__filename);
process.exit = (code = process.exitCode || 0) => {{
  delete Error.prepareStackTrace;
  Error.stackTraceLimit = 10;
  const caller = new Error().stack.split("\\n")[2];
  if (caller.includes(script)) prove(code);
  exit(code);
}};
process.on("beforeExit", prove);
process.argv[1] = script;
require("module").runMain();
"""
_JAVASCRIPT = ScriptLanguage(".cjs", "node {0}", _JAVASCRIPT_WRAPPER)
# `go run` ends with 1 whatever the program ends with. A folder holds files of one package.
_GO_BINARY = '"${{TMPDIR:-/tmp}}/issue_script"'
_GO = ScriptLanguage("/main.go", f"go build -o {_GO_BINARY} ./{{0}} && {_GO_BINARY}")
# PHP tells nobody where a program exits, so the script calls a function instead.
_PHP_WRAPPER = """<?php
function issue_exit($code = 0) {{
    $caller = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, 1)[0]["file"] ?? "";
    if ($caller === __DIR__ . "/" . {file!r} && (!is_int($code) || $code === 0)) {{
        fwrite(STDOUT, "\\n{word}\\n");
    }}
    exit($code);
}}

unlink(__FILE__);
(function () {{
    $text = "";
    $tokens = token_get_all(file_get_contents({file!r}), TOKEN_PARSE);
    $blank = [T_WHITESPACE, T_COMMENT, T_DOC_COMMENT];
    foreach ($tokens as $position => $token) {{
        if (!is_array($token) || $token[0] !== T_EXIT) {{
            $text .= is_array($token) ? $token[1] : $token;
            continue;
        }}
        $text .= "\\\\issue_exit";
        do {{
            $next = $tokens[++$position];
        }} while (is_array($next) && in_array($next[0], $blank));
        if ($next !== "(") {{
            $text .= "()";
        }}
    }}
    file_put_contents({file!r}, $text);
}})();
require __DIR__ . "/" . {file!r};
fwrite(STDOUT, "\\n{word}\\n");
"""
_PHP = ScriptLanguage(".php", "php {0}", _PHP_WRAPPER)
_RUBY_WRAPPER = """File.delete(__FILE__)
script = File.expand_path({file!r})
$0 = script
code = 0
begin
  load script
rescue SystemExit => e
  code = e.status
  code = 1 if code == 0 && !e.backtrace.first.start_with?(script + ":")
end
STDOUT.puts "\\n{word}" if code == 0
exit code
"""
_RUBY = ScriptLanguage(".rb", "ruby -Ilib {0}", _RUBY_WRAPPER)
_BY_RUNNER: Mapping[Runner, ScriptLanguage] = {
    **dict.fromkeys(OF_PYTHON, PYTHON),
    **dict.fromkeys(
        (Runner.VITEST, Runner.JEST, Runner.MOCHA, Runner.NODE), _JAVASCRIPT
    ),
    Runner.GO: _GO,
    Runner.PHPUNIT: _PHP,
    Runner.RSPEC: _RUBY,
    Runner.MINITEST: _RUBY,
}


def language_of_runner(runner: Runner) -> ScriptLanguage | None:
    """Return the language of scripts for a project; None where a file does not run alone."""
    return _BY_RUNNER.get(runner)


def script_prompt(
    language: ScriptLanguage,
    problem: str,
    files: Mapping[str, str],
    patch: str,
) -> str:
    """Return the request for a script; large files are left out."""
    small_files: dict[str, str] = {}
    room = _MAX_FILES
    for path, text in files.items():
        if len(text) <= min(_MAX_FILE, room):
            small_files[path] = text
            room -= len(text)
    return render(
        "script",
        problem=problem,
        files=list(small_files.items()),
        patch=patch,
        fence=shortest_fence([*small_files.values(), patch]),
        command=language.run(_NAME_IN_PROMPTS),
    )


def distinguishing_prompt(
    language: ScriptLanguage,
    problem: str,
    first: str,
    second: str,
) -> str:
    return render(
        "script_distinguishing",
        problem=problem,
        first=first,
        second=second,
        fence=shortest_fence([first, second]),
        command=language.run(_NAME_IN_PROMPTS),
    )


def script_in(reply: str) -> str:
    """Return the longest code block of a reply; empty without one, and for a very long one."""
    blocks = [""]
    fence = ""
    lines: list[str] = []
    for line in reply.split("\n"):
        mark = fence_of(line)
        if not fence:
            lines = []
            if mark:
                fence = mark[0]
        elif mark and mark[0].startswith(fence) and not mark[1]:
            blocks.append("\n".join(lines) + "\n")
            fence = ""
        else:
            lines.append(line)
    code = max(blocks, key=len)
    if code.strip() and len(code) <= _MAX_SCRIPT:
        return code
    return ""


# Exit code 1 of pytest: tests ran, and some failed. Others tell nothing of the issue.
_TEST_AS_SCRIPT = """# A test that an attempt wrote or changed, as a script.
import pathlib
import subprocess
import sys

path = pathlib.Path({path!a})
path.parent.mkdir(parents=True, exist_ok=True)
path.write_bytes({data!r})
command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
code = subprocess.run(command).returncode
sys.exit({{0: 0, 1: 2}}.get(code, 1))
"""


def script_of_file(
    language: ScriptLanguage,
    runner: Runner,
    path: str,
    data: bytes,
) -> str:
    """Return the script that a file of an attempt is, also of a test for pytest; else nothing."""
    if not path.endswith(language.suffix) or len(data) > _MAX_SCRIPT:
        return ""
    name = PurePosixPath(path).stem
    if name.startswith("test_") or name.endswith("_test"):
        if runner is not Runner.PYTEST:
            return ""
        return _TEST_AS_SCRIPT.format(path=path, data=data)
    return TextFile.decode(data).text
