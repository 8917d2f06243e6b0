"""The languages of exercises, one record each: commands, preparation, and which files are whose."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

PYTHON, RUNNER = "{python}", "{runner}"
"""Placeholders of a command: an interpreter, and the text of ``testing/inside.py``."""


@dataclass(frozen=True)
class Language:
    """What is specific to a language.

    Attributes:
        suffixes: of its source files, with the dot.
        test_command: argv, in the folder of the exercise, without network; placeholders are
            replaced.
        unittest_command: that of the benchmark of 2023; empty if it had no such language.
        prepare: argvs that run beforehand with network, in the folder of the exercise.
        manifests: (file below ``.meta``, file that it replaces): they name packages to prepare.
        environment: variables of both.
        never_solutions: base names of files that are listed as solutions and are none.
        test_edits: (pattern, replacement) over the tests' text: exercises for learners switch all
            tests but the first off.
        tools: programs that must be there.
        home: the folder where a further file of the example belongs.
    """

    name: str
    suffixes: tuple[str, ...]
    test_command: tuple[str, ...]
    unittest_command: tuple[str, ...] = ()
    prepare: tuple[tuple[str, ...], ...] = ()
    manifests: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    never_solutions: tuple[str, ...] = ()
    test_edits: tuple[tuple[str, str], ...] = ()
    tools: tuple[str, ...] = ()
    home: str = ""

    @property
    def reports(self) -> bool:
        """Whether the tests run under ``testing/inside.py``, which reports on them."""
        return RUNNER in self.test_command

    def is_solution(self, path: str) -> bool:
        """Tell whether a file that is listed as a solution may be one."""
        return path.endswith(self.suffixes) and path.rpartition("/")[2] not in self.never_solutions

    def edited_test(self, text: str) -> str:
        """Return the text of a test with all of its tests switched on."""
        for pattern, replacement in self.test_edits:
            text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
        return text


_PYTEST_OPTIONS = (
    "-p", "no:cacheprovider", "--color=no", "-o", "addopts=", "--rootdir=.", "--noconftest",
)  # fmt: skip
# The pages of polyglot-benchmark and of its harness give these commands.
_ALL = (
    Language(
        "python",
        (".py",),
        (PYTHON, "-c", RUNNER, "pytest", *_PYTEST_OPTIONS),
        unittest_command=(
            PYTHON, "-c", RUNNER, "unittest", "discover", "-s", ".", "-t", ".", "-p", "*_test.py",
        ),
        environment=(
            ("PYTHONHASHSEED", "0"), ("PYTHONDONTWRITEBYTECODE", "1"), ("COLUMNS", "80"),
            ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"),
        ),
        never_solutions=("conftest.py", "sitecustomize.py", "usercustomize.py"),
    ),
    Language(
        "rust",
        (".rs",),
        ("cargo", "test", "--offline", "--", "--include-ignored"),
        prepare=(("cargo", "fetch"),),
        manifests=(("Cargo-example.toml", "Cargo.toml"),),
        environment=(("CARGO_TERM_COLOR", "never"),),
        never_solutions=("Cargo.toml",),
        tools=("cargo",),
        home="src",
    ),
    Language(
        "go",
        (".go",),
        ("go", "test", "./..."),
        prepare=(("go", "mod", "download"),),
        environment=(("GOFLAGS", "-mod=mod"), ("GOTOOLCHAIN", "local")),
        tools=("go",),
    ),
    Language(
        "javascript",
        (".js",),
        ("npm", "run", "test"),
        prepare=(("npm", "install", "--no-audit", "--no-fund"),),
        environment=(("CI", "1"), ("NO_COLOR", "1")),
        test_edits=((r"\bxtest\(", "test("), (r"\bxit\(", "it("), (r"\bxdescribe\(", "describe(")),
        tools=("node", "npm"),
    ),
    Language(
        "cpp",
        (".cpp", ".h", ".hpp"),
        ("sh", "-c", "cmake -DEXERCISM_RUN_ALL_TESTS=1 -B build . && cmake --build build"),
        never_solutions=("CMakeLists.txt",),
        tools=("cmake", "make", "g++"),
    ),
    Language(
        "java",
        (".java",),
        ("sh", "./gradlew", "test", "--offline", "--no-daemon"),
        prepare=(("sh", "./gradlew", "testClasses", "--no-daemon"),),
        test_edits=((r"^[ \t]*@Disabled\([^)\n]*\)[ \t]*\n", ""),),
        tools=("java",),
        home="src/main/java",
    ),
)  # fmt: skip
LANGUAGES = {language.name: language for language in _ALL}


def language_of(paths: Iterable[str]) -> Language | None:
    """Return the language of the first path that has the suffix of one, None for others."""
    found = (one for path in paths for one in _ALL if path.endswith(one.suffixes))
    return next(found, None)


def missing_tools(language: Language) -> tuple[str, ...]:
    """Return the programs of a language that this machine lacks."""
    return tuple(tool for tool in language.tools if shutil.which(tool) is None)
