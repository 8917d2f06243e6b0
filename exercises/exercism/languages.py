"""The languages of exercises, one record each: commands, preparation, and which files are whose."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

PYTHON, NAME, PREPARED = "{python}", "{name}", "{prepared}"
"""Placeholders in a command: an interpreter; the name of the exercise; the folder of prepared
packages."""
REPORT = ".report.xml"
"""The file, in the folder of the command, in which pytest writes what became of each test."""


@dataclass(frozen=True)
class Language:
    """What is specific to a language.

    Attributes:
        suffixes: of its source files, with the dot.
        test_command: argv, in the folder of the exercise, without network.
        version_command: prints the versions of the tools; it fails where they cannot be used.
        unittest_command: that of the benchmark of 2023; empty if it had no such language.
        unittest_version: as ``version_command``, for it.
        counted: patterns of the lines that count tests, with the groups passed, failed and
            skipped; a line without digits in a group counts one, without a group one that passed.
        packages: (file, pattern): an exercise whose file matches needs packages from elsewhere;
            the matches identify them.
        prepare: argvs that fetch them with network, in a folder with this file.
        manifests: (file below ``.meta``, file that it replaces): they name packages.
        never_solutions: base names of files that are listed as solutions and are none.
        test_edits: (pattern, replacement) over the tests' text: exercises for learners switch all
            tests but the first off.
        root_command: prints the folder of the tools; without it they lie in ``bin`` below it.
        own_folder: the exercise lies in a folder below with its name, for the sake of its build.
        changing: patterns of what the tools print differently in each run.
        home: the folder where a further file of the example belongs.
    """

    name: str
    suffixes: tuple[str, ...]
    test_command: tuple[str, ...]
    version_command: tuple[str, ...]
    unittest_command: tuple[str, ...] = ()
    unittest_version: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    packages: tuple[str, str] = ("", "")
    prepare: tuple[tuple[str, ...], ...] = ()
    manifests: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    never_solutions: tuple[str, ...] = ()
    test_edits: tuple[tuple[str, str], ...] = ()
    tools: tuple[str, ...] = ()
    root_command: tuple[str, ...] = ()
    own_folder: bool = False
    changing: tuple[str, ...] = ()
    home: str = ""

    @property
    def reports(self) -> bool:
        """Whether the runners of tests name each one that fails."""
        return bool(self.unittest_command)

    def is_solution(self, path: str) -> bool:
        return (
            path.endswith(self.suffixes)
            and path.rpartition("/")[2] not in self.never_solutions
        )

    def edited_test(self, text: str) -> str:
        for pattern, replacement in self.test_edits:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        return text


_PYTEST_OPTIONS = (
    "-p",
    "no:cacheprovider",
    "--color=no",
    "-o",
    "addopts=",
    "--rootdir=.",
    "--noconftest",
    f"--junitxml={REPORT}",
)
_VERSION = "import sys; print('Python', sys.version.split()[0])"
_PYTEST_VERSION = f"import pytest; {_VERSION}; print('pytest', pytest.__version__)"
# The crates lie in a folder that stands for the registry.
_CRATES = (
    "--config",
    'source.crates-io.replace-with="prepared"',
    "--config",
    f'source.prepared.directory="{PREPARED}/vendor"',
)
# The pages of polyglot-benchmark and of its harness give these commands.
_ALL = (
    Language(
        "python",
        (".py",),
        (PYTHON, "-m", "pytest", *_PYTEST_OPTIONS),
        (PYTHON, "-c", _PYTEST_VERSION),
        unittest_command=(
            PYTHON,
            "-m",
            "unittest",
            "discover",
            "-s",
            ".",
            "-t",
            ".",
            "-p",
            "*_test.py",
        ),
        unittest_version=(PYTHON, "-c", _VERSION),
        environment=(
            ("PYTHONHASHSEED", "0"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("COLUMNS", "80"),
            ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"),
            # A module in the folder must not take the place of one of Python's.
            ("PYTHONSAFEPATH", "1"),
        ),
        never_solutions=("conftest.py", "sitecustomize.py", "usercustomize.py"),
    ),
    Language(
        "rust",
        (".rs",),
        ("cargo", "test", "--offline", *_CRATES, "--", "--include-ignored"),
        ("cargo", "--version"),
        counted=(
            r"^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; "
            r"(?P<skipped>\d+) ignored",
        ),
        packages=("Cargo.toml", r"^\[(?:dev-)?dependencies[^\[]*?=[^\[]*"),
        prepare=(("cargo", "vendor", "vendor"),),
        manifests=(("Cargo-example.toml", "Cargo.toml"),),
        environment=(("CARGO_TERM_COLOR", "never"), ("CARGO_NET_RETRY", "1")),
        never_solutions=("Cargo.toml",),
        tools=("cargo", "cc"),
        root_command=("rustc", "--print", "sysroot"),
        changing=(
            r"/rustc/\w+/(?=library/)",
            r"[^\s\"'(]*/rustlib/src/rust/(?=library/)",
        ),
        home="src",
    ),
    Language(
        "go",
        (".go",),
        ("go", "test", "./..."),
        ("go", "version"),
        counted=(r"^ok\s", r"^(?P<failed>)FAIL\t"),
        environment=(
            ("GOFLAGS", "-mod=mod"),
            ("GOTOOLCHAIN", "local"),
            ("GOPROXY", "off"),
        ),
        tools=("go",),
        root_command=("go", "env", "GOROOT"),
        changing=(r"(?<=\s)\(?\d+\.\d+s\)?$", r"[^\s\"'(]*/go[-\d.]*/(?=src/)"),
    ),
    Language(
        "javascript",
        (".js",),
        ("sh", "-c", f'ln -s "{PREPARED}/node_modules" node_modules && npm run test'),
        ("node", "--version"),
        counted=(
            r"^Tests: +(?:(?P<failed>\d+) failed, )?(?:(?P<skipped>\d+) skipped, )?"
            r"(?:\d+ todo, )?(?:(?P<passed>\d+) passed, )?\d+ total",
        ),
        packages=("package.json", r'"(?:devD|d)ependencies": \{[^{}]*\}'),
        prepare=(("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"),),
        environment=(("CI", "1"), ("NO_COLOR", "1"), ("NO_UPDATE_NOTIFIER", "1")),
        test_edits=(
            (r"\bxtest\(", "test("),
            (r"\bxit\(", "it("),
            (r"\bxdescribe\(", "describe("),
        ),
        tools=("node", "npm"),
        changing=(r" \(\d+(?:\.\d+)? m?s\)$", r"^Time: .*\n"),
    ),
    Language(
        "cpp",
        (".cpp", ".h", ".hpp"),
        (
            "sh",
            "-c",
            f'cmake -DEXERCISM_RUN_ALL_TESTS=1 -S "{NAME}" -B build && cmake --build build',
        ),
        ("cmake", "--version"),
        counted=(
            r"^All tests passed \(\d+ assertions? in (?P<passed>\d+) test cases?\)",
            r"^test cases: +\d+ \|(?: +(?P<passed>\d+) passed \|)? +(?P<failed>\d+) failed",
        ),
        never_solutions=("CMakeLists.txt",),
        tools=("cmake", "make", "g++"),
        own_folder=True,
        changing=(r" \(\d+\.\d+s\)$",),
    ),
    Language(
        "java",
        (".java",),
        (
            "sh",
            "-c",
            f'cp -r "{PREPARED}/gradle" /tmp/gradle && '
            "GRADLE_USER_HOME=/tmp/gradle sh ./gradlew test --offline --no-daemon",
        ),
        ("java", "-version"),
        counted=(r" PASSED$", r" (?P<failed>)FAILED$", r" (?P<skipped>)SKIPPED$"),
        packages=("build.gradle", r"(?s).*"),
        prepare=(("sh", "./gradlew", "testClasses", "--no-daemon", "-g", "gradle"),),
        test_edits=((r"^[ \t]*@Disabled\([^)\n]*\)[ \t]*\n", ""),),
        tools=("java",),
        changing=(r"(?<=BUILD \w{6}) .*$",),
        home="src/main/java",
    ),
)
LANGUAGES = {language.name: language for language in _ALL}


def language_of(paths: Iterable[str]) -> Language | None:
    """Return the language of the first path that has the suffix of one, None for others."""
    found = (one for path in paths for one in _ALL if path.endswith(one.suffixes))
    return next(found, None)
