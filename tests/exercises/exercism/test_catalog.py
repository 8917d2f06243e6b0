"""Exercises from folders, archives and commits, whatever the order of files; and the choice."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import UserError
from core.git import git
from core.settings import check_settings, of_mapping
from exercises.exercism.catalog import (
    Catalog,
    catalog_of,
    exercise_of,
    fetched_catalog,
    read_catalog,
)
from exercises.exercism.languages import LANGUAGES
from exercises.exercism.settings import Exercises, ExercismSettings
from tests.support.exercism import SIX, six

NAMES = [
    "cuckoo-clock",
    "garden-path",
    "lost-property",
    "name-tags",
    "seed-packets",
    "tidy-receipt",
]


def archive(
    path: Path,
    members: dict[str, bytes],
    kind: bytes = tarfile.REGTYPE,
) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.type = (
                (len(data), kind) if kind == tarfile.REGTYPE else (0, kind)
            )
            info.linkname = "/etc/passwd" if kind != tarfile.REGTYPE else ""
            tar.addfile(info, io.BytesIO(data))
    return path


def members(prefix: str) -> dict[str, bytes]:
    files = [path for path in SIX.rglob("*") if path.is_file()]
    return {
        f"{prefix}{path.relative_to(SIX).as_posix()}": path.read_bytes()
        for path in files
    }


def facts(catalog: Catalog) -> list[tuple[str, str]]:
    return [(exercise.key, exercise.sha256) for exercise in catalog.exercises]


def test_our_exercises_are_read() -> None:
    catalog = read_catalog(SIX)
    assert [exercise.key for exercise in catalog.exercises] == [
        f"python/{n}" for n in NAMES
    ]
    assert six()["garden-path"].solution == ("garden_path.py", "compass.py")
    assert "test_utils.py" in six()["lost-property"].tested_files({})


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "./",
        "exercises/practice/",
        "python/exercises/practice/",
        "x-7ae/exercises/practice/",
    ],
)
def test_every_layout_and_order_gives_the_same(tmp_path: Path, prefix: str) -> None:
    files = members(prefix)
    backwards = dict(reversed(files.items()))
    other = (
        {f"{prefix}../concept/x/.meta/config.json": b"{}"}
        if "practice" in prefix
        else {}
    )
    concept = {os.path.normpath(path): data for path, data in other.items()}
    found = read_catalog(archive(tmp_path / "a.tar.gz", concept | files))
    assert facts(found) == facts(read_catalog(SIX))
    again = read_catalog(archive(tmp_path / "b.tar.gz", backwards))
    assert again.sha256 == found.sha256 == read_catalog(SIX).sha256


def test_a_changed_byte_changes_the_hash(tmp_path: Path) -> None:
    files = members("")
    files["name-tags/name_tags_test.py"] += b"\n"
    changed = read_catalog(archive(tmp_path / "a.tar.gz", files))
    assert changed.sha256 != read_catalog(SIX).sha256


def test_a_commit_is_fetched_once(tmp_path: Path) -> None:
    origin = tmp_path / "exercism" / "python"
    shutil.copytree(SIX, origin / "exercises" / "practice")
    (origin / "exercises" / ".gitattributes").write_text("* export-ignore\n")
    (origin / "exercises" / "practice" / "name-tags" / "link.py").symlink_to(
        "/etc/passwd"
    )
    git("init", "-q", cwd=origin)
    git("add", "-A", cwd=origin)
    git("commit", "-q", "-m", "exercises", cwd=origin)
    commit = git("rev-parse", "HEAD", cwd=origin).decode().strip()
    source = f"file://{tmp_path}/{{repo}}"
    cache = tmp_path / "cache"
    found = fetched_catalog(cache, source, commit)
    assert (found.sha256, found.commit) == (read_catalog(SIX).sha256, commit)
    assert (in_place := read_catalog(origin)).commit == commit
    assert in_place.sha256 == found.sha256
    (origin / "exercises" / "practice" / "name-tags" / "more.py").write_text("x = 1\n")
    assert read_catalog(origin).commit == f"{commit}-dirty"
    shutil.rmtree(origin)
    assert fetched_catalog(cache, source, commit) == found


@pytest.mark.parametrize(
    "name", ["../evil.py", "/etc/evil.py", "a/../../evil.py", "a\\b", "a\nb"]
)
def test_an_archive_with_unsafe_names_is_refused(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "a.tar.gz", {**members(""), name: b""})
    with pytest.raises(UserError, match="not safe"):
        read_catalog(path)


def test_links_and_special_files_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(SIX, "six")
        for kind in (
            tarfile.SYMTYPE,
            tarfile.LNKTYPE,
            tarfile.FIFOTYPE,
            tarfile.CHRTYPE,
        ):
            info = tarfile.TarInfo(f"six/name-tags/special{kind.decode()}")
            info.type = kind
            info.linkname = "/etc/passwd"
            tar.addfile(info)
    assert read_catalog(path).sha256 == read_catalog(SIX).sha256


def zeros(path: Path, size: int) -> Path:
    """Write an archive with a member that claims ``size`` bytes."""
    import gzip

    info = tarfile.TarInfo("a/b.py")
    info.size = size
    path.write_bytes(gzip.compress(info.tobuf() + bytes(2048)))
    return path


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: p / "nothing", "there is no"),
        (lambda p: zeros(p / "a", 10**12), "are the most"),
        (lambda p: zeros(p / "a", 10**6), "is not an archive"),
        (lambda p: archive(p / "a", {"x/y.py": b""}), "holds no exercises"),
        (lambda p: archive(p / "a", {"x/.meta/config.json": b"{"}), "is broken"),
        (
            lambda p: archive(p / "a", {"x/.meta/config.json": b"[]"}),
            "names no solution",
        ),
        (lambda p: archive(p / "a", {**members("a/"), **members("b/")}), "twice"),
    ],
)
def test_what_cannot_be_used_is_named(
    tmp_path: Path,
    make: Callable[[Path], Path],
    words: str,
) -> None:
    path = make(tmp_path)
    with pytest.raises(UserError, match=words) as error:
        read_catalog(path)
    assert "\n" not in str(error.value)


def test_no_text_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_text("text")
    with pytest.raises(UserError, match="is not an archive"):
        read_catalog(tmp_path / "a.tar.gz")


def exercises_of(options: dict[str, object]) -> Exercises:
    """Return the section with these values, as they are typed."""
    layer = of_mapping(ExercismSettings, {"exercises": options}, "here")
    return check_settings(ExercismSettings, layer).exercises


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, NAMES),
        ({"filter": "tags|path"}, ["garden-path", "name-tags"]),
        ({"slice": "1:3"}, NAMES[1:3]),
        ({"ids": "name-tags,python/cuckoo-clock"}, ["name-tags", "cuckoo-clock"]),
        ({"languages": "python,rust"}, NAMES),
    ],
)
def test_the_choice(options: dict[str, object], names: list[str]) -> None:
    chosen = exercises_of(options).select(read_catalog(SIX).exercises)
    assert [exercise.name for exercise in chosen] == names


def test_a_shuffle_depends_on_its_seed_alone() -> None:
    every = read_catalog(SIX).exercises
    chosen = [exercises_of({"shuffle": n}).select(every) for n in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ids": "no-such"}, "check exercises.ids"),
        ({"languages": "cobol"}, "there are python, rust"),
        ({"languages": "rust"}, "no exercise"),
        ({"filter": "("}, "regular expression"),
        ({"slice": "9:"}, "selects no exercise"),
    ],
)
def test_a_wrong_choice_is_named(options: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        exercises_of(options).select(read_catalog(SIX).exercises)


def config(**files: list[str]) -> bytes:
    return json.dumps({"files": files}).encode()


def test_files_that_are_listed_and_no_solutions() -> None:
    listed = config(
        solution=["src/lib.rs", "Cargo.toml", "../../etc/passwd", "gone.rs"],
        test=["tests/x.rs"],
        example=[".meta/example.rs"],
    )
    files = {
        ".meta/config.json": listed,
        ".meta/example.rs": b"fn right() {}",
        ".meta/Cargo-example.toml": b"with crates",
        "Cargo.toml": b"plain",
        "src/lib.rs": b"fn stub() {}",
        "tests/x.rs": b"#[ignore]",
    }
    exercise = exercise_of("x", files)
    assert (
        exercise and exercise.key == "rust/x" and exercise.solution == ("src/lib.rs",)
    )
    tested = exercise.tested_files(
        {"src/lib.rs": b"new", "tests/x.rs": b"", "build.rs": b""}
    )
    assert tested == {
        "Cargo.toml": b"with crates",
        "src/lib.rs": b"new",
        "tests/x.rs": b"#[ignore]",
    }
    assert exercise.example() == {"src/lib.rs": b"fn right() {}"}


def test_examples_are_matched_by_name_and_suffix() -> None:
    files = {
        ".meta/config.json": config(
            solution=["a.h", "a.cpp"],
            test=["a_test.cpp"],
            example=[".meta/example.cpp", ".meta/example.h", ".meta/more.h"],
        ),
        "a.h": b"",
        "a.cpp": b"",
        "a_test.cpp": b"",
        ".meta/example.cpp": b"C",
        ".meta/example.h": b"H",
        ".meta/more.h": b"M",
    }
    exercise = exercise_of("a", files)
    assert exercise and exercise.example() == {
        "a.h": b"H",
        "a.cpp": b"C",
        "more.h": b"M",
    }
    assert exercise.example_files()["more.h"] == b"M"
    assert six()["garden-path"].example()["compass.py"].startswith(b"STEPS")


def test_tests_are_switched_on() -> None:
    java = '@Test\n    @Disabled("Remove to run test")\n    public void a() {}\n'
    assert LANGUAGES["java"].enabled_tests(java) == "@Test\n    public void a() {}\n"
    assert LANGUAGES["javascript"].enabled_tests("xtest('a', 1); maxtest(2)") == (
        "test('a', 1); maxtest(2)"
    )
    assert LANGUAGES["python"].enabled_tests(java) == java


def test_an_unknown_language_is_left_out(tmp_path: Path) -> None:
    files = {
        ".meta/config.json": config(solution=["a.zig"], test=["b.zig"]),
        "a.zig": b"",
    }
    assert exercise_of("a", files | {"b.zig": b""}) is None
    tree = {f"a/{path}": data for path, data in (files | {"b.zig": b""}).items()}
    with pytest.raises(UserError, match="no exercises"):
        catalog_of(tree.items(), tmp_path)
    six_more = (tree | members("six/")).items()
    assert len(catalog_of(six_more, tmp_path).exercises) == 6
