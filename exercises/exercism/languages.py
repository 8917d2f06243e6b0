"""The languages of exercises, one record each: commands, preparation, and which files are whose."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

REPORT = ".report.xml"
"""The file, in the folder of the command, in which pytest writes what became of each test."""


@dataclass(frozen=True)
class Language:
    """What is specific to a language.

    Commands are split as a shell does; ``{python}``, ``{name}`` of the exercise and ``{prepared}``,
    the folder of its packages, are filled in.

    Attributes:
        suffixes: of its source files, with the dot.
        test: the command in the folder of the exercise, without network.
        version: prints the versions of the tools; it fails where they cannot be used.
        unittest: the command of the benchmark of 2023; empty if it had no such language.
        unittest_version: as ``version``, for it.
        counted: patterns of the lines that count tests, with the groups passed, failed and
            skipped; a line without digits in a group counts one, without a group one that passed.
        packages_file: names the packages that an exercise needs from elsewhere.
        packages: what identifies them in this file; nothing of it: the exercise needs none.
        prepare: the command that fetches them with network, in a folder with this file.
        manifests: by file, the one below ``.meta`` that replaces it: it names packages.
        never_solutions: base names of files that are listed as solutions and are none.
        test_edits: replacements by pattern over the tests' text: exercises for learners switch all
            tests but the first off.
        tools: programs that the commands need, beside Python.
        root: prints the folder of the tools; without it they lie in ``bin`` below it.
        own_folder: the exercise lies in a folder below with its name, for the sake of its build.
        changing: patterns of what the tools print differently in each run.
        home: where a further file of the example belongs, with ``/`` at the end.
    """

    name: str
    suffixes: tuple[str, ...]
    test: str
    version: str
    unittest: str = ""
    unittest_version: str = ""
    counted: tuple[str, ...] = ()
    packages_file: str = ""
    packages: str = ""
    prepare: str = ""
    manifests: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    never_solutions: tuple[str, ...] = ()
    test_edits: Mapping[str, str] = field(default_factory=dict)
    tools: tuple[str, ...] = ()
    root: str = ""
    own_folder: bool = False
    changing: tuple[str, ...] = ()
    home: str = ""

    @property
    def names_failures(self) -> bool:
        """Whether the runners of tests name each one that fails."""
        return bool(self.unittest)

    def is_solution(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        return path.endswith(self.suffixes) and name not in self.never_solutions

    def enabled_tests(self, text: str) -> str:
        """Return the text of tests, of which none is switched off."""
        for pattern, replacement in self.test_edits.items():
            text = re.sub(
                pattern,
                replacement,
                text,
                flags=re.MULTILINE,
            )
        return text


def argv(
    command: str,
    name: str = "",
    prepared: str = "/nothing",
) -> tuple[str, ...]:
    """Return the arguments of a command of a ``Language``."""
    arguments = []
    for argument in shlex.split(command):
        argument = argument.replace("{python}", "python").replace("{name}", name)
        arguments.append(argument.replace("{prepared}", prepared))
    return tuple(arguments)


# The pages of polyglot-benchmark and of its harness give these commands.
_PYTHON = Language(
    name="python",
    suffixes=(".py",),
    test="{python} -m pytest -p no:cacheprovider --color=no -o addopts= --rootdir=. "
    f"--noconftest --junitxml={REPORT}",
    version="{python} -c \"import pytest; import sys; print('Python', sys.version.split()[0]); "
    "print('pytest', pytest.__version__)\"",
    unittest="{python} -m unittest discover -s . -t . -p *_test.py",
    unittest_version="{python} -c \"import sys; print('Python', sys.version.split()[0])\"",
    variables={
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "COLUMNS": "80",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        # A module in the folder must not take the place of one of Python's.
        "PYTHONSAFEPATH": "1",
    },
    never_solutions=("conftest.py", "sitecustomize.py", "usercustomize.py"),
)
_RUST = Language(
    name="rust",
    suffixes=(".rs",),
    # The crates lie in a folder that stands for the registry.
    test="cargo test --offline "
    "--config 'source.crates-io.replace-with=\"prepared\"' "
    "--config 'source.prepared.directory=\"{prepared}/vendor\"' -- --include-ignored",
    version="cargo --version",
    counted=(
        r"^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; "
        r"(?P<skipped>\d+) ignored",
    ),
    packages_file="Cargo.toml",
    packages=r"^\[(?:dev-)?dependencies[^\[]*?=[^\[]*",
    prepare="cargo vendor vendor",
    manifests={"Cargo.toml": ".meta/Cargo-example.toml"},
    variables={"CARGO_TERM_COLOR": "never", "CARGO_NET_RETRY": "1"},
    never_solutions=("Cargo.toml",),
    tools=("cargo", "cc"),
    root="rustc --print sysroot",
    changing=(
        r"/rustc/\w+/(?=library/)",
        r"[^\s\"'(]*/rustlib/src/rust/(?=library/)",
    ),
    home="src/",
)
_GO = Language(
    name="go",
    suffixes=(".go",),
    test="go test ./...",
    version="go version",
    counted=(r"^ok\s", r"^(?P<failed>)FAIL\t"),
    variables={"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOPROXY": "off"},
    tools=("go",),
    root="go env GOROOT",
    changing=(r"(?<=\s)\(?\d+\.\d+s\)?$", r"[^\s\"'(]*/go[-\d.]*/(?=src/)"),
)
_JAVASCRIPT = Language(
    name="javascript",
    suffixes=(".js",),
    test="sh -c 'ln -s \"{prepared}/node_modules\" node_modules && npm run test'",
    version="node --version",
    counted=(
        r"^Tests: +(?:(?P<failed>\d+) failed, )?(?:(?P<skipped>\d+) skipped, )?"
        r"(?:\d+ todo, )?(?:(?P<passed>\d+) passed, )?\d+ total",
    ),
    packages_file="package.json",
    packages=r'"(?:devD|d)ependencies": \{[^{}]*\}',
    prepare="npm install --ignore-scripts --no-audit --no-fund",
    variables={"CI": "1", "NO_COLOR": "1", "NO_UPDATE_NOTIFIER": "1"},
    test_edits={
        r"\bxtest\(": "test(",
        r"\bxit\(": "it(",
        r"\bxdescribe\(": "describe(",
    },
    tools=("node", "npm"),
    changing=(r" \(\d+(?:\.\d+)? m?s\)$", r"^Time: .*\n"),
)
_CPP = Language(
    name="cpp",
    suffixes=(".cpp", ".h", ".hpp"),
    test='sh -c \'cmake -DEXERCISM_RUN_ALL_TESTS=1 -S "{name}" -B build && '
    "cmake --build build'",
    version="cmake --version",
    counted=(
        r"^All tests passed \(\d+ assertions? in (?P<passed>\d+) test cases?\)",
        r"^test cases: +\d+ \|(?: +(?P<passed>\d+) passed \|)? +(?P<failed>\d+) failed",
    ),
    never_solutions=("CMakeLists.txt",),
    tools=("cmake", "make", "g++"),
    own_folder=True,
    changing=(r" \(\d+\.\d+s\)$",),
)
_JAVA = Language(
    name="java",
    suffixes=(".java",),
    test='sh -c \'cp -r "{prepared}/gradle" /tmp/gradle && '
    "GRADLE_USER_HOME=/tmp/gradle sh ./gradlew test --offline --no-daemon'",
    version="java -version",
    counted=(r" PASSED$", r" (?P<failed>)FAILED$", r" (?P<skipped>)SKIPPED$"),
    packages_file="build.gradle",
    packages=r"(?s).*",
    prepare="sh ./gradlew testClasses --no-daemon -g gradle",
    test_edits={r"^[ \t]*@Disabled\([^)\n]*\)[ \t]*\n": ""},
    tools=("java",),
    changing=(r"(?<=BUILD \w{6}) .*$",),
    home="src/main/java/",
)
LANGUAGES = {
    language.name: language
    for language in (_PYTHON, _RUST, _GO, _JAVASCRIPT, _CPP, _JAVA)
}


def language_of(paths: Iterable[str]) -> Language | None:
    """Return the language of the first path that has the suffix of one, None for others."""
    for path in paths:
        for language in LANGUAGES.values():
            if path.endswith(language.suffixes):
                return language
    return None
