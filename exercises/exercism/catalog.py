"""Which exercises there are: from a folder, an archive or the pinned commit, and the choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.cli.selection import INSTANCES, Selection, read_ids
from bench.repos.mirrors import GITHUB, Mirrors
from core.errors import UserError
from core.git import git_result
from core.options import option, option_group
from exercises.exercism.exercise import CONFIG, Exercise, exercise_of, hash_of
from exercises.exercism.languages import LANGUAGES
from exercises.exercism.trees import Tree, read_tree, tree_of_commit

REPOSITORY = "exercism/python"
COMMIT = "7aef5e9a8940a624f3cd4d604e99955d610058bf"
"""The commit of the published runs, of 2023-06-07: 133 exercises."""
_PRACTICE = "exercises/practice/"


@dataclass(frozen=True)
class Catalog:
    """A collection of exercises.

    Attributes:
        exercises: by key.
        commit: of the repository they were read from; with ``-dirty`` where files may differ from
            it; empty if there is none.
        unknown: names of exercises in languages that are not among ``LANGUAGES``.
    """

    exercises: tuple[Exercise, ...]
    commit: str = ""
    unknown: tuple[str, ...] = ()

    @cached_property
    def sha256(self) -> str:
        """The hash of all exercises with their files."""
        return hash_of(f"{one.key}\0{one.sha256}\n" for one in self.exercises)


def catalog_of(tree: Tree, place: str, commit: str = "") -> Catalog:
    """Return the exercises in files by path; the layout shows where they are. Pure.

    An exercise is a folder with ``.meta/config.json``. In a checkout of exercism/python or
    polyglot-benchmark only those below ``exercises/practice`` count.

    Raises:
        UserError: there is none, two have one key, or one cannot be used; names ``place``.
    """
    folders = [p.removesuffix(CONFIG) for p in tree if p.endswith(f"/{CONFIG}")]
    practice = [folder for folder in folders if _PRACTICE in f"/{folder}"]
    members = _members(tree, practice or folders)
    found: dict[str, Exercise] = {}
    unknown = []
    for folder, files in sorted(members.items()):
        name = folder.rstrip("/").rpartition("/")[2]
        exercise = exercise_of(name, files)
        if exercise is None:
            unknown.append(name)
        elif exercise.key in found:
            raise UserError(f"{place} holds {exercise.key} twice; choose a folder below it")
        else:
            found[exercise.key] = exercise
    if not found:
        raise UserError(
            f"{place} holds no exercises; give a checkout of {REPOSITORY} or polyglot-benchmark, "
            "or a folder of exercises"
        )
    return Catalog(tuple(found[key] for key in sorted(found)), commit, tuple(unknown))


def _members(tree: Tree, folders: Iterable[str]) -> dict[str, Tree]:
    """Return the files of each folder with paths relative to it."""
    members: dict[str, Tree] = {folder: {} for folder in folders}
    for path, data in tree.items():
        parts = path.split("/")
        places = ("/".join(parts[:n]) + "/" for n in range(1, len(parts)))
        if (folder := next((p for p in places if p in members), None)) is not None:
            members[folder][path.removeprefix(folder)] = data
    return members


def read_catalog(place: Path) -> Catalog:
    """Return the exercises of a checkout, a folder of exercises, or a ``.tar.gz`` of it.

    Raises:
        UserError: it cannot be used.
    """
    return catalog_of(read_tree(place), str(place), _commit_of(place))


def fetched_catalog(cache: Path, source: str = GITHUB, commit: str = COMMIT) -> Catalog:
    """Return the exercises of the pinned commit; its repository is cloned into the cache once.

    Args:
        cache: the harness's.
        source: address to clone from, with ``{repo}``.
        commit: full hash.

    Raises:
        UserError: the mirror in the cache lacks the commit.
        InfrastructureError: it cannot be cloned.
    """
    mirror = Mirrors(cache / "mirrors", source).get(REPOSITORY, commit)
    tree = tree_of_commit(mirror, commit, _PRACTICE.rstrip("/"))
    return catalog_of(tree, f"{REPOSITORY} at {commit}", commit)


def _commit_of(folder: Path) -> str:
    """Return the commit of a checkout, empty for another place."""
    if not folder.is_dir():
        return ""
    # An exercise folder inside another project's repository has no commit of its own.
    found = git_result("rev-parse", "HEAD", "--show-prefix", cwd=folder)
    commit, _, prefix = found.stdout.decode().partition("\n")
    practice = not prefix.strip() or _PRACTICE in f"/{prefix.strip()}"
    if found.returncode or not practice:
        return ""
    changed = git_result("status", "--porcelain", "--", ".", cwd=folder)
    return commit if changed.returncode == 0 and not changed.stdout else f"{commit}-dirty"


def _languages(name: str, text: str, _: object) -> tuple[str, ...]:
    asked = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if wrong := [language for language in asked if language not in LANGUAGES]:
        known = ", ".join(LANGUAGES)
        raise UserError(f"{name} {','.join(wrong)}: there are {known}")
    return asked


@option_group
class ExerciseSelection(Selection):
    """Which exercises of a catalog, and in what order."""

    ids: tuple[str, ...] = option(
        (),
        "Names, or language/name: a comma list, or @file.",
        "--ids",
        panel=INSTANCES,
        given=str,
        read=lambda _, text, __: read_ids(text),
    )
    languages: tuple[str, ...] = option(
        (),
        f"Of {', '.join(LANGUAGES)}; default: all that are there.",
        "--languages",
        panel=INSTANCES,
        given=str,
        read=_languages,
    )

    def of(self, exercises: Sequence[Exercise]) -> tuple[Exercise, ...]:
        """Return the selected exercises: languages, ids, pattern, order, slice.

        Raises:
            UserError: nothing is left, an unknown id, a broken pattern or slice.
        """
        known = {
            one.key: one
            for one in exercises
            if not self.languages or one.language in self.languages
        }
        if not known:
            raise UserError(f"--languages {','.join(self.languages)}: no exercise is in them")
        chosen = list(dict.fromkeys(key for name in self.ids for key in _named(name, known)))
        return tuple(known[key] for key in self.narrowed(chosen or [*known], "exercise"))


def _named(name: str, known: Iterable[str]) -> list[str]:
    found = [key for key in known if name in (key, key.partition("/")[2])]
    if not found:
        raise UserError(f"no exercise is called {name}; check --ids")
    return found
