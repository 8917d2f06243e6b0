"""Made histories of git: commits with files, dates and messages, merges, reverts and renames."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support import write_files
from tests.support.commands import Preloaded, Started

Files = Mapping[str, str | bytes | None]
# After SINCE, whatever the day on which the tests run.
START = datetime(2026, 3, 1, tzinfo=UTC)
SINCE = ("--since", "2026-01")


class History:
    """A git repository with a clock of its own: each commit is an hour after the one before."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.time = START
        root.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *argv: str | bytes, stdin: bytes | None = None) -> str:
        """Run git at the time of the clock and return what it prints."""
        date = f"@{int(self.time.timestamp())} +0000"
        people = {}
        for role in ("AUTHOR", "COMMITTER"):
            people[f"GIT_{role}_NAME"] = "U Ser"
            people[f"GIT_{role}_EMAIL"] = "u@example.org"
            people[f"GIT_{role}_DATE"] = date
        allow = ("-c", "protocol.file.allow=always")
        result = subprocess.run(
            ["git", *allow, *argv],
            cwd=self.root,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={**os.environ, **people},
        )
        assert result.returncode == 0, result.stderr.decode("utf-8", "replace")
        return result.stdout.decode("utf-8", "replace").strip()

    def commit(self, message: str | bytes, files: Files | None = None) -> str:
        """Commit files, of which None stands for one that is deleted; return the commit."""
        changes = files or {}
        for path, content in changes.items():
            if content is None:
                (self.root / path).unlink()
            else:
                write_files(self.root, {path: content})
        self.git("add", "--all")
        return self._commit(message)

    def _commit(self, message: str | bytes) -> str:
        self.time += timedelta(hours=1)
        data = message
        if isinstance(data, str):
            data = data.encode()
        options = ("--quiet", "--allow-empty", "--allow-empty-message", "--no-verify")
        self.git("commit", *options, "--cleanup=verbatim", "-F", "-", stdin=data)
        return self.head

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str, start: str = "HEAD") -> None:
        """Make a branch and go there."""
        self.git("checkout", "--quiet", "-b", name, start)

    def go(self, name: str) -> None:
        self.git("checkout", "--quiet", name)

    def merge(self, message: str, *branches: str, files: Files | None = None) -> str:
        """Merge branches with a commit, to which ``files`` are added; return it."""
        options = ("--quiet", "--no-ff", "--no-commit", "--allow-unrelated-histories")
        self.git("merge", *options, *branches)
        write_files(self.root, files or {})
        self.git("add", "--all")
        return self._commit(message)

    def revert(self, commit: str) -> str:
        self.time += timedelta(hours=1)
        self.git("revert", "--no-edit", commit)
        return self.head

    def move(self, old: str, new: str) -> None:
        """Rename a file, for the commit that comes next."""
        (self.root / new).parent.mkdir(parents=True, exist_ok=True)
        self.git("mv", old, new)


@dataclass(frozen=True)
class Language:
    """How a library of functions of two numbers and its tests are written in a language.

    Attributes:
        program: what runs the tests.
        files: the manifest of a version, and what lists the modules and their files.
        source: the file of a function whose result is an expression of ``a`` and ``b``.
        case: one test: name, function, and what it returns of 6 and 3.
        kept: a test that always passes.
        flaky: a test that every second microsecond passes.
        network: a test that needs a public address, too.
        head: what stands before the tests of a function.
        test_name: the name of a test by the readers of output.
    """

    program: str
    files: Callable[[str, Mapping[str, str]], Files]
    source_path: str
    test_path: str
    source: Callable[[str, str], str]
    head: Callable[[str], str]
    case: Callable[[str, str, int], str]
    kept: Callable[[str], str]
    flaky: Callable[[str], str]
    network: Callable[[str, str, int], str]
    test_name: Callable[[str], str]

    def path(self, module: str) -> str:
        return self.source_path.format(module)

    def tests(self, module: str, *cases: str) -> Files:
        text = self.head(module) + "".join(cases)
        return {self.test_path.format(module): text}


def _javascript_files(version: str, modules: Mapping[str, str]) -> Files:
    package = {"name": "calc", "version": version, "scripts": {"test": "node --test"}}
    lines = []
    for name, path in modules.items():
        lines.append(f"exports.{name} = require('./{path}').{name};\n")
    return {"package.json": json.dumps(package, indent=1), "index.js": "".join(lines)}


JAVASCRIPT = Language(
    program="node",
    files=_javascript_files,
    source_path="lib/{}.js",
    test_path="test/{}.test.js",
    source=lambda name, result: f"exports.{name} = (a, b) => {result};\n",
    head=lambda _: (
        "const test = require('node:test');\n"
        "const assert = require('node:assert');\n"
        "const net = require('node:net');\n"
        "const calc = require('../index.js');\n"
    ),
    case=lambda test, name, result: (
        f"\ntest('{test}', () => assert.strictEqual(calc.{name}(6, 3), {result}));\n"
    ),
    kept=lambda test: f"\ntest('{test}', () => assert.ok(calc));\n",
    flaky=lambda test: (
        f"\ntest('{test}', () => "
        "assert.ok(process.hrtime.bigint() / 1000n % 2n === 0n));\n"
    ),
    network=lambda test, name, result: (
        f"\ntest('{test}', (_, done) => {{\n"
        f"  assert.strictEqual(calc.{name}(6, 3), {result});\n"
        "  const socket = net.connect(443, '1.1.1.1');\n"
        "  socket.setTimeout(2000, () => socket.destroy(new Error('late')));\n"
        "  socket.on('connect', () => { socket.destroy(); done(); });\n"
        "  socket.on('error', done);\n"
        "});\n"
    ),
    test_name=lambda test: test,
)


def _title(words: str) -> str:
    return words.title().replace(" ", "")


def _go_files(version: str, modules: Mapping[str, str]) -> Files:
    text = f'package calc\n\nconst version = "{version}"\n'
    return {"go.mod": "module calc\n\ngo 1.19\n", "version.go": text}


GO = Language(
    program="go",
    files=_go_files,
    source_path="{}.go",
    test_path="{}_test.go",
    source=lambda name, result: (
        f"package calc\n\nfunc {_title(name)}(a, b int) int {{\n\treturn {result}\n}}\n"
    ),
    head=lambda _: (
        'package calc\n\nimport (\n\t"net"\n\t"testing"\n\t"time"\n)\n\n'
        "var _ = net.Dial\n\nvar _ = time.Now\n"
    ),
    case=lambda test, name, result: (
        f"\nfunc Test{_title(test)}(t *testing.T) {{\n"
        f"\tif {_title(name)}(6, 3) != {result} {{\n\t\tt.Fatal()\n\t}}\n}}\n"
    ),
    kept=lambda test: f"\nfunc Test{_title(test)}(t *testing.T) {{\n}}\n",
    flaky=lambda test: (
        f"\nfunc Test{_title(test)}(t *testing.T) {{\n"
        "\tif time.Now().UnixMicro()%2 == 0 {\n\t\tt.Fatal()\n\t}\n}\n"
    ),
    network=lambda test, name, result: (
        f"\nfunc Test{_title(test)}(t *testing.T) {{\n"
        f"\tif {_title(name)}(6, 3) != {result} {{\n\t\tt.Fatal()\n\t}}\n"
        '\t_, err := net.DialTimeout("tcp", "1.1.1.1:443", 2*time.Second)\n'
        "\tif err != nil {\n\t\tt.Fatal(err)\n\t}\n}\n"
    ),
    test_name=lambda test: f"Test{_title(test)}",
)


def _rust_files(version: str, modules: Mapping[str, str]) -> Files:
    lines = []
    for name, path in modules.items():
        file = path.removeprefix("src/")
        lines.append(f'#[path = "{file}"]\npub mod {name};\n')
    package = f'[package]\nname = "calc"\nversion = "{version}"\nedition = "2021"\n'
    return {"Cargo.toml": package, "src/lib.rs": "".join(lines)}


def _snake(words: str) -> str:
    return words.replace(" ", "_")


RUST = Language(
    program="cargo",
    files=_rust_files,
    source_path="src/{}.rs",
    test_path="tests/{}.rs",
    source=lambda name, result: (
        f"pub fn {name}(a: i64, b: i64) -> i64 {{\n    {result}\n}}\n"
    ),
    head=lambda name: f"use calc::{name}::{name};\n",
    case=lambda test, name, result: (
        f"\n#[test]\nfn {_snake(test)}() {{\n    assert_eq!({name}(6, 3), {result});\n}}\n"
    ),
    kept=lambda test: f"\n#[test]\nfn {_snake(test)}() {{\n}}\n",
    flaky=lambda test: (
        f"\n#[test]\nfn {_snake(test)}() {{\n"
        "    let now = std::time::SystemTime::now();\n"
        "    let passed = now.duration_since(std::time::UNIX_EPOCH).unwrap();\n"
        "    assert!(passed.as_micros() % 2 == 0);\n}\n"
    ),
    network=lambda test, name, result: (
        f"\n#[test]\nfn {_snake(test)}() {{\n    assert_eq!({name}(6, 3), {result});\n"
        '    let address = "1.1.1.1:443".parse().unwrap();\n'
        "    let limit = std::time::Duration::from_secs(2);\n"
        "    std::net::TcpStream::connect_timeout(&address, limit).unwrap();\n}\n"
    ),
    test_name=_snake,
)

LANGUAGES = {"javascript": JAVASCRIPT, "go": GO, "rust": RUST}
_MODULES = ("add", "mul", "sub", "inc", "dec", "top", "low", "web", "neg")
_RIGHT = {
    "add": ("a + b", 9),
    "mul": ("a * b", 18),
    "sub": ("a - b", 3),
    "inc": ("a + b - b + 1", 7),
    "dec": ("a + b - b - 1", 5),
    "top": ("a + a - b", 9),
    "low": ("b - a", -3),
    "web": ("a + b + b", 12),
    "neg": ("b - a - b", -6),
}
_WRONG = "a / b"  # two


class PlantedHistory(History):
    """Ten changes in one language, of which six make rows.

    Attributes:
        commits: by what each is.
    """

    def __init__(self, root: Path, language: Language) -> None:
        super().__init__(root)
        self.language = language
        self.modules = {name: language.path(name) for name in _MODULES}
        self.commits: dict[str, str] = {}
        files = dict(language.files("1.0.0", self.modules))
        for name in _MODULES:
            files[language.path(name)] = language.source(name, _WRONG)
            if name != "mul":
                files |= language.tests(name, self._old(name))
        self.commit("First", files)

    def plant(self) -> None:
        """Make the ten changes; the one with the flaky test is the last, ten days later."""
        self._add("plain", "add", self._tests("add"))
        self._add("new file", "mul", self._tests("mul"))
        self._add("no tests", "sub", {})
        self.commits["no source"] = self.commit(
            "Test that the difference is kept\n\nNothing but tests changes in this commit.",
            self._tests("sub"),
        )
        self._rename("inc", "increment")
        self._merge("dec")
        reverted = self._add("reverted", "top", self._tests("top"))
        self.commits["revert"] = self.revert(reverted)
        language = self.language
        network = language.network("web right", "web", _RIGHT["web"][1])
        self._add("network", "web", language.tests("web", self._old("web"), network))
        documents = {"README.md": "# calc\n", "docs/low.rst": "It is low.\n"}
        version = language.files("1.0.1", self.modules)
        self._add("documents", "low", {**self._tests("low"), **documents, **version})
        self.time += timedelta(days=10)
        flaky = language.flaky("neg at times")
        cases = (self._old("neg"), self._new("neg"), flaky)
        self._add("flaky", "neg", language.tests("neg", *cases))

    def _old(self, name: str) -> str:
        return self.language.kept(f"{name} exists")

    def _new(self, name: str) -> str:
        return self.language.case(f"{name} right", name, _RIGHT[name][1])

    def _tests(self, name: str) -> Files:
        return self.language.tests(name, self._old(name), self._new(name))

    def _source(self, name: str) -> Files:
        text = self.language.source(name, _RIGHT[name][0])
        return {self.modules[name]: text}

    def _message(self, name: str) -> str:
        return f"Let {name} return what its name says\n\nIt divides its numbers, whatever they are."

    def _add(self, kind: str, name: str, others: Files) -> str:
        files = {**self._source(name), **others}
        self.commits[kind] = self.commit(self._message(name), files)
        return self.commits[kind]

    def _rename(self, name: str, new_name: str) -> None:
        self.move(self.modules[name], self.language.path(new_name))
        self.modules[name] = self.language.path(new_name)
        self._add(
            "rename",
            name,
            {
                **self.language.files("1.0.0", self.modules),
                **self._tests(name),
            },
        )

    def _merge(self, name: str) -> None:
        self.branch("topic")
        self.commits["part"] = self.commit(self._message(name), self._source(name))
        self.commit(
            "Test it\n\nIt had no tests for what it returns.", self._tests(name)
        )
        self.go("main")
        title = f"Merge branch 'topic'\n\n{self._message(name)}"
        self.commits["merge"] = self.merge(title, "topic")


@dataclass(frozen=True)
class Mine:
    """Runs ``mine`` in a folder, with rows in ``mine.jsonl`` there."""

    folder: Path
    cache: Path
    preloaded: Preloaded
    seconds: float = 60

    def start(
        self, repository: Path | str, *options: str, out: str = "mine", **changes: Any
    ) -> subprocess.CompletedProcess[str]:
        process = self.begin(repository, *options, out=out, **changes)
        try:
            printed, _ = process.communicate(timeout=self.seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.wait(), printed, "")

    def begin(
        self, repository: Path | str, *options: str, out: str = "mine", **changes: Any
    ) -> Started:
        argv = ["mine", str(repository), str(self.out(out)), *options]
        if "--since" not in options:
            argv += SINCE
        argv += ["--set", f"folders.cache={self.cache}"]
        return self.preloaded.start(*argv, cwd=self.folder, **changes)

    def out(self, name: str = "mine") -> Path:
        return self.folder / f"{name}.jsonl"

    def rows(self, name: str = "mine") -> list[dict[str, Any]]:
        text = self.out(name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]
