"""One exercise: its files, which of them are whose, and the folder that is tested. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.errors import UserError
from core.parsing.untrusted import DamagedError, json_of
from exercises.exercism.languages import LANGUAGES, Language, language_of

CONFIG = ".meta/config.json"
# Instructions, the example and what explains it: no test needs them.
_NOT_TESTED = (".meta/", ".docs/", ".approaches/", ".articles/")


@dataclass(frozen=True)
class Exercise:
    """An exercise as it stands in its collection.

    Attributes:
        files: content by path, with ``/``, relative to the exercise.
        solution: paths of the files that a model may write, in the order of the configuration.
    """

    language: str
    name: str
    files: Mapping[str, bytes]
    solution: tuple[str, ...]
    tests: tuple[str, ...]
    examples: tuple[str, ...]

    @property
    def key(self) -> str:
        return f"{self.language}/{self.name}"

    @property
    def rules(self) -> Language:
        return LANGUAGES[self.language]

    @property
    def sha256(self) -> str:
        return tree_hash(self.files)

    def text(self, path: str) -> str:
        """Return a file as text with ``\\n`` line ends, empty if there is none."""
        try:
            text = self.files.get(path, b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{self.key}: {path} is not UTF-8; correct the exercise"
            ) from error
        return text.replace("\r\n", "\n")

    def stubs(self) -> dict[str, bytes]:
        """Return the pristine solution files by path."""
        return {path: self.files[path] for path in self.solution}

    def tested_files(self, solution: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the folder that is tested: pristine files, and the bytes of solution files.

        Files of ``solution`` that are not solution files are left out, and tests are switched on.
        ``.meta`` and ``.docs`` are not there, so that no solution can read the example.
        """
        kept = {
            p: data for p, data in self.files.items() if not p.startswith(_NOT_TESTED)
        }
        texts = {path: self.text(path) for path in self.tests if self.rules.test_edits}
        edited = {
            path: self.rules.edited_test(text).encode() for path, text in texts.items()
        }
        written = {path: solution[path] for path in self.solution if path in solution}
        named = ((f".meta/{source}", place) for source, place in self.rules.manifests)
        manifests = {
            place: self.files[source] for source, place in named if source in self.files
        }
        return kept | edited | manifests | written

    def example(self) -> dict[str, bytes]:
        """Return the reference solution by path.

        Names and suffixes match examples with solution files: their order in the configuration
        does not. A further file keeps its name and goes where the language has its sources.
        """
        free, found = list(self.solution), dict[str, bytes]()
        waiting = list(self.examples)
        for mark in ("/", "."):
            for path in list(waiting):
                end = path.rpartition(mark)[2]
                place = next(
                    (one for one in free if one.rpartition(mark)[2] == end), None
                )
                if place is not None:
                    found[place] = self.files[path]
                    free.remove(place)
                    waiting.remove(path)
        home = f"{self.rules.home}/" if self.rules.home else ""
        return found | {
            f"{home}{path.rpartition('/')[2]}": self.files[path] for path in waiting
        }

    def example_files(self) -> dict[str, bytes]:
        """Return the folder in which the reference solution is tested, with its further files."""
        example = self.example()
        return self.tested_files(example) | example


def exercise_of(name: str, files: Mapping[str, bytes]) -> Exercise | None:
    """Return the exercise in folder ``name``, None if its language is not among ``LANGUAGES``."""
    try:
        config = json_of(files[CONFIG])
    except DamagedError as error:
        raise UserError(
            f"{name}: {CONFIG} is broken ({error}); correct the exercise"
        ) from error
    listed = config.get("files") if isinstance(config, dict) else None
    lists = listed if isinstance(listed, dict) else {}
    # Each path once; a path out of the exercise does not exist.
    solution, tests, examples = (
        tuple(dict.fromkeys(p for p in named if isinstance(p, str) and p in files))
        if isinstance(named := lists.get(kind), list)
        else ()
        for kind in ("solution", "test", "example")
    )
    language = language_of(solution)
    if language is None and solution:
        return None
    kept = tuple(
        p for p in solution if language and language.is_solution(p) and p not in tests
    )
    if not kept or not tests:
        kind = "test" if kept else "solution"
        raise UserError(
            f"{name}: {CONFIG} names no {kind} file that exists; correct the exercise"
        )
    return Exercise(
        language.name if language else "", name, dict(files), kept, tests, examples
    )


def tree_hash(files: Mapping[str, bytes]) -> str:
    """Return the SHA-256 over the sorted paths and the hashes of their contents."""
    return hash_of(
        f"{path}\0{hashlib.sha256(files[path]).hexdigest()}\n" for path in sorted(files)
    )


def hash_of(lines: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
