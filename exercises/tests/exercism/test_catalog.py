"""Exercises from folders, archives and commits, whatever the order of files; and the choice."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from exercises.tests.support.exercism import SIX, six
from swe_retry.core.errors import UserError
from swe_retry.core.git import git
from swe_retry.core.sources import check_settings, of_mapping
from swe_retry_exercises.exercism.catalog import (
    Catalog,
    catalog_of,
    exercise_of,
    fetched_catalog,
    read_catalog,
)
from swe_retry_exercises.exercism.languages import LANGUAGES
from swe_retry_exercises.exercism.settings import Exercises, ExercismSettings

NAMES = [
    "cuckoo-clock",
    "garden-path",
    "lost-property",
    "name-tags",
    "seed-packets",
    "tidy-receipt",
]
OURS = read_catalog(SIX)


def archive(path: Path, members: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def members(prefix: str) -> dict[str, bytes]:
    data = {}
    for path in SIX.rglob("*"):
        if path.is_file():
            name = path.relative_to(SIX).as_posix()
            data[prefix + name] = path.read_bytes()
    return data


def facts(catalog: Catalog) -> list[tuple[str, str]]:
    return [(exercise.key, exercise.sha256) for exercise in catalog.exercises]


def test_our_exercises_are_read() -> None:
    keys = [exercise.key for exercise in OURS.exercises]
    assert keys == [f"python/{name}" for name in NAMES]
    assert six()["garden-path"].solution == ("garden_path.py", "compass.py")
    assert "test_utils.py" in six()["lost-property"].tested_files({})


def test_every_layout_and_order_gives_the_same(tmp_path: Path) -> None:
    for prefix in (
        "",
        "./",
        "exercises/practice/",
        "python/exercises/practice/",
        "x-7ae/exercises/practice/",
    ):
        files = members(prefix)
        concept = {}
        if "practice" in prefix:
            path = f"{prefix}../concept/x/.meta/config.json"
            concept[os.path.normpath(path)] = b"{}"
        catalog = read_catalog(archive(tmp_path / "a.tar.gz", concept | files))
        assert facts(catalog) == facts(OURS), prefix
        assert catalog.sha256 == OURS.sha256
        backwards = dict(reversed(files.items()))
        again = read_catalog(archive(tmp_path / "b.tar.gz", backwards))
        assert again.sha256 == OURS.sha256


def test_a_changed_byte_changes_the_hash(tmp_path: Path) -> None:
    files = members("")
    files["name-tags/name_tags_test.py"] += b"\n"
    changed = read_catalog(archive(tmp_path / "a.tar.gz", files))
    assert changed.sha256 != OURS.sha256


def test_a_commit_is_fetched_once(tmp_path: Path) -> None:
    origin = tmp_path / "exercism" / "python"
    practice = origin / "exercises" / "practice"
    shutil.copytree(SIX, practice)
    (origin / "exercises" / ".gitattributes").write_text("* export-ignore\n")
    (practice / "name-tags" / "link.py").symlink_to("/etc/passwd")
    for line in ("init -q", "add -A", "commit -q -m exercises"):
        git(*line.split(), cwd=origin)
    head = git("rev-parse", "HEAD", cwd=origin)
    commit = head.decode().strip()
    source = f"file://{tmp_path}/{{repo}}"
    cache = tmp_path / "cache"
    catalog = fetched_catalog(cache, source, commit)
    for read in (catalog, read_catalog(origin)):
        assert read.sha256 == OURS.sha256
        assert read.commit == commit
    (practice / "name-tags" / "more.py").write_text("x = 1\n")
    assert read_catalog(origin).commit == f"{commit}-dirty"
    shutil.rmtree(origin)
    assert fetched_catalog(cache, source, commit) == catalog


def test_an_archive_with_unsafe_names_is_refused(tmp_path: Path) -> None:
    for name in ("../evil.py", "/etc/evil.py", "a/../../evil.py", "a\\b", "a\nb"):
        files = members("")
        files[name] = b""
        path = archive(tmp_path / "a.tar.gz", files)
        with pytest.raises(UserError, match="not safe"):
            read_catalog(path)


def test_links_and_special_files_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    kinds = (
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
    )
    with tarfile.open(path, "w:gz") as tar:
        tar.add(SIX, "six")
        for kind in kinds:
            info = tarfile.TarInfo(f"six/name-tags/special{kind.decode()}")
            info.type = kind
            info.linkname = "/etc/passwd"
            tar.addfile(info)
    assert read_catalog(path).sha256 == OURS.sha256


def zeros(path: Path, size: int) -> Path:
    """Write an archive with a member that claims ``size`` bytes."""
    info = tarfile.TarInfo("a/b.py")
    info.size = size
    content = info.tobuf() + bytes(2048)
    path.write_bytes(gzip.compress(content))
    return path


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    def check(path: Path, problem: str) -> None:
        with pytest.raises(UserError, match=problem) as error:
            read_catalog(path)
        assert "\n" not in str(error.value)

    text = tmp_path / "text.tar.gz"
    text.write_text("text")
    check(tmp_path / "nothing", "there is no")
    check(text, "is not an archive")
    check(zeros(tmp_path / "large", 10**12), "are the most")
    check(zeros(tmp_path / "zeros", 10**6), "is not an archive")

    def check_files(files: Mapping[str, bytes], problem: str) -> None:
        check(archive(tmp_path / "a.tar.gz", files), problem)

    config_path = "x/.meta/config.json"
    check_files({"x/y.py": b""}, "holds no exercises")
    check_files({config_path: b"{"}, "is broken")
    check_files({config_path: b"[]"}, "names no solution")
    check_files(members("a/") | members("b/"), "twice")


def exercises_of(options: dict[str, object]) -> Exercises:
    """Return the section with these values, as they are typed."""
    layer = of_mapping(ExercismSettings, {"exercises": options}, "here")
    return check_settings(ExercismSettings, layer).exercises


def choose_names(**options: object) -> list[str]:
    """Return the names of the exercises that these values of the section choose."""
    chosen = exercises_of(options).select(OURS.exercises)
    return [exercise.name for exercise in chosen]


def test_the_choice() -> None:
    assert choose_names() == NAMES
    assert choose_names(filter="tags|path") == ["garden-path", "name-tags"]
    assert choose_names(slice="1:3") == NAMES[1:3]
    by_ids = choose_names(ids="name-tags,python/cuckoo-clock")
    assert by_ids == ["name-tags", "cuckoo-clock"]
    assert choose_names(languages="python,rust") == NAMES


def test_a_shuffle_depends_on_its_seed_alone() -> None:
    first = choose_names(shuffle=1)
    assert choose_names(shuffle=1) == first
    assert choose_names(shuffle=2) != first


def test_a_wrong_choice_is_named() -> None:
    def check(problem: str, **options: str) -> None:
        with pytest.raises(UserError, match=problem):
            choose_names(**options)

    check("check exercises.ids", ids="no-such")
    check("there are python, rust", languages="cobol")
    check("no exercise", languages="rust")
    check("regular expression", filter="(")
    check("selects no exercise", slice="9:")


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
    assert exercise
    assert exercise.key == "rust/x"
    assert exercise.solution == ("src/lib.rs",)
    changes = {"src/lib.rs": b"new", "tests/x.rs": b"", "build.rs": b""}
    assert exercise.tested_files(changes) == {
        "Cargo.toml": b"with crates",
        "src/lib.rs": b"new",
        "tests/x.rs": b"#[ignore]",
    }
    assert exercise.example() == {"src/lib.rs": b"fn right() {}"}


def test_examples_are_matched_by_name_and_suffix() -> None:
    examples = [".meta/example.cpp", ".meta/example.h", ".meta/more.h"]
    files = {
        ".meta/config.json": config(
            solution=["a.h", "a.cpp"],
            test=["a_test.cpp"],
            example=examples,
        ),
        "a.h": b"",
        "a.cpp": b"",
        "a_test.cpp": b"",
    }
    for name in examples:
        files[name] = name.encode()
    exercise = exercise_of("a", files)
    assert exercise
    assert exercise.example() == {
        "a.h": b".meta/example.h",
        "a.cpp": b".meta/example.cpp",
        "more.h": b".meta/more.h",
    }
    assert exercise.example_files()["more.h"] == b".meta/more.h"
    garden_path = six()["garden-path"].example()
    assert garden_path["compass.py"].startswith(b"STEPS")


def test_tests_are_switched_on() -> None:
    java = '@Test\n    @Disabled("Remove to run test")\n    public void a() {}\n'
    assert LANGUAGES["java"].enabled_tests(java) == "@Test\n    public void a() {}\n"
    javascript = "xtest('a', 1); maxtest(2)"
    enabled = LANGUAGES["javascript"].enabled_tests(javascript)
    assert enabled == "test('a', 1); maxtest(2)"
    assert LANGUAGES["python"].enabled_tests(java) == java


def test_an_unknown_language_is_left_out(tmp_path: Path) -> None:
    files = {
        ".meta/config.json": config(solution=["a.zig"], test=["b.zig"]),
        "a.zig": b"",
        "b.zig": b"",
    }
    assert exercise_of("a", files) is None
    tree = {f"a/{path}": data for path, data in files.items()}
    with pytest.raises(UserError, match="no exercises"):
        catalog_of(tree.items(), tmp_path)
    tree |= members("six/")
    catalog = catalog_of(tree.items(), tmp_path)
    assert len(catalog.exercises) == 6
