"""The languages of exercises (``languages.yaml``): commands, preparation, whose files are whose."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from pydantic import TypeAdapter

REPORT = ".report.xml"
"""The file, in the folder of the command, in which pytest writes what became of each test."""


@dataclass(frozen=True)
class Language:
    """What is specific to a language.

    Commands are split as a shell does; ``{name}`` of the exercise and ``{prepared}``, the folder of
    its packages, are filled in.

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


def argv(command: str, name: str = "", prepared: str = "/nothing") -> tuple[str, ...]:
    """Return the arguments of a command of a ``Language``."""
    arguments = []
    for argument in shlex.split(command):
        argument = argument.replace("{name}", name)
        arguments.append(argument.replace("{prepared}", prepared))
    return tuple(arguments)


_TABLE = Path(__file__).with_name("languages.yaml")
_ROWS = yaml.safe_load(_TABLE.read_text("utf-8"))
LANGUAGES = {
    language.name: language
    for language in TypeAdapter(list[Language]).validate_python(_ROWS)
}


def language_of(paths: Iterable[str]) -> Language | None:
    """Return the language of the first path that has the suffix of one, None for others."""
    for path in paths:
        for language in LANGUAGES.values():
            if path.endswith(language.suffixes):
                return language
    return None
