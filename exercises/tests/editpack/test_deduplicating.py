"""The commands ``dedup`` and ``sample`` on files of rows."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from operator import itemgetter
from os import environ
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.commands import EDITPACK
from exercises.tests.support.editpack import edit, read_rows, report_beside, write_rows
from swe_retry.repositories.mirrors import Mirrors
from swe_retry_exercises.editpack.dedup import shingles
from swe_retry_exercises.editpack.rows import EditRow, with_content

MIRRORS = "SWE_MIRRORS"
SEED = "--set sample.seed=4"
SKIP_BAD = "--set rows.skip_bad=true"
ALL = ["c1", "c2", "c3", "c4", "c5"]
LONG = " ".join(f"word{n}" for n in range(40))


def row(number: int, body: str, **columns: Any) -> EditRow:
    """Return a row whose prompt has mostly words of its own, but for the body."""
    old = f"{body}\nold_{number} = {number}\n"
    new = f"{body}\nnew_{number} = {number}\n"
    return edit(old, new, f"Change {number}", commit=f"c{number}", **columns)


ROWS = [
    row(1, LONG, date="2020-05-01T12:00:00+02:00"),
    row(2, "alpha = beta(gamma)\n" * 9, date="2020-05-01"),
    row(3, LONG, author_date="2020-05-01T10:30:00Z"),
    row(4, LONG + " and_more", date="2019-01-01"),
    row(5, "delta = epsilon(zeta)\n" * 9, date="2021-01-01"),
]


def values_of(path: Path, keys: str) -> list[tuple[str, ...]]:
    """Return some columns of the rows of a file."""
    columns = itemgetter(*keys.split())
    return [columns(row) for row in read_rows(path)]


def dedup(tmp_path: Path, arguments: str) -> str:
    """Deduplicate rows into the files out.jsonl and gone.jsonl of a folder."""
    files = f"--out {tmp_path}/out.jsonl --dropped {tmp_path}/gone.jsonl"
    return EDITPACK.output(f"dedup {arguments} {files}")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", ROWS)


def test_one_row_of_each_cluster_stays(tmp_path: Path, rows: Path) -> None:
    out = tmp_path / "out.jsonl"
    printed = dedup(tmp_path, f"{rows}")
    assert "1 cluster, the largest of 3 rows; 71 bands × 7 rows" in printed
    assert read_rows(out) == [with_content(ROWS[n]) for n in (0, 1, 4)]
    assert values_of(tmp_path / "gone.jsonl", "commit rule detail") == [
        ("c3", "duplicate", "of row 1, commit c1"),
        ("c4", "duplicate", "of row 1, commit c1"),
    ]
    report = report_beside(out)
    expected = {
        "rows": 5,
        "kept": 3,
        "dropped": {"duplicate": 2},
        "clusters": 1,
        "largest_cluster": 3,
        "short": 0,
        "bands": 71,
        "rows_per_band": 7,
        "options": {
            "skip_bad": False,
            "threshold": 0.5,
            "permutations": 500,
            "seed": 1,
        },
    }
    assert {key: report[key] for key in expected} == expected
    assert report["versions"]["datasketch"].startswith("2.")


def test_a_content_of_something_else_is_made_again(tmp_path: Path, rows: Path) -> None:
    other_content = {"content": "the same text of five tokens"}
    other_rows = [row | other_content for row in ROWS]
    others = write_rows(tmp_path / "others.jsonl", other_rows)
    out = tmp_path / "out.jsonl"
    dedup(tmp_path, f"{rows}")
    expected = read_rows(out)
    dedup(tmp_path, f"{others}")
    assert read_rows(out) == expected


def test_what_is_no_row_keeps_its_number(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ["no row", *ROWS])
    dedup(tmp_path, f"{rows} {SKIP_BAD}")
    dropped = read_rows(tmp_path / "gone.jsonl")
    rules = [line["rule"] for line in dropped]
    assert rules == ["unreadable", "duplicate", "duplicate"]
    assert dropped[-1]["detail"] == "of row 2, commit c1"
    EDITPACK.refusal(f"dedup {rows} --out {tmp_path}/other.jsonl")
    assert not (tmp_path / "other.jsonl").exists()


def test_a_mistake_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [row(6, "x", author_date="yesterday"), row(7, "x")]
    write_rows(tmp_path / "rows.jsonl", rows)
    for setting, problem in {
        "dedup.threshold=0": "dedup.threshold 0: must be greater than 0",
        "dedup.threshold=1.1": "dedup.threshold 1.1: must be at most 1",
        "dedup.threshold=1": "leaves no bands; give a lower threshold or more permutations",
        "dedup.permutations=20000": "dedup.permutations 20000: must be at most 10000",
        "rows.skip_bad=perhaps": "rows.skip_bad perhaps: must be a valid boolean",
    }.items():
        line = f"dedup rows.jsonl --out out.jsonl --set {setting}"
        assert problem in EDITPACK.refusal(line)
        assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def commits_of_sample(rows: Path, out: Path, options: str) -> list[str]:
    EDITPACK.output(f"sample {rows} --out {out} {options}")
    return [row["commit"] for row in read_rows(out)]


def test_a_sample_is_in_the_order_of_the_input(tmp_path: Path, rows: Path) -> None:
    out = tmp_path / "out.jsonl"
    dropped = tmp_path / "gone.jsonl"
    options = f"--size 3 {SEED}"
    three = commits_of_sample(rows, out, f"{options} --dropped {dropped}")
    assert three == sorted(three)
    others = []
    for dropped_row in read_rows(dropped):
        assert dropped_row["rule"] == "unsampled"
        others.append(dropped_row["commit"])
    assert sorted(three + others) == ALL
    assert read_rows(out) == [row for row in ROWS if row["commit"] in three]
    assert report_beside(out)["options"] == {
        "n": 3,
        "seed": 4,
        "skip_bad": False,
    }
    assert commits_of_sample(rows, out, options) == three
    assert commits_of_sample(rows, out, "--size 5") == ALL


def test_each_row_is_as_likely_to_be_in_a_sample(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ["no row", *ROWS])
    out = tmp_path / "out.jsonl"
    times = Counter[str]()
    for seed in range(100):
        options = f"--size 2 --set sample.seed={seed} {SKIP_BAD}"
        times.update(commits_of_sample(rows, out, options))
    assert sorted(times) == ALL
    # 40 each: 20 is four deviations away.
    assert min(times.values()) > 20


def test_a_sample_of_more_rows_than_there_are_is_refused(
    tmp_path: Path,
    rows: Path,
) -> None:
    error = EDITPACK.refusal(f"sample {rows} --out {tmp_path}/out.jsonl")
    assert "--size 25000: " in error
    assert error.endswith("rows.jsonl has 5 rows; ask for fewer")


def test_several_sets_have_origins_and_are_deduplicated(
    tmp_path: Path,
    rows: Path,
) -> None:
    more_rows = [row(8, LONG), row(9, "eta = theta(iota)\n" * 9)]
    second_set = write_rows(tmp_path / "more.jsonl", more_rows)
    out = tmp_path / "out.jsonl"
    dedup(tmp_path, f"{rows} {second_set}")
    assert values_of(out, "origin commit") == [
        ("rows.jsonl", "c1"),
        ("rows.jsonl", "c2"),
        ("rows.jsonl", "c5"),
        ("more.jsonl", "c9"),
    ]
    detail = "of row 1 of rows.jsonl, commit c1"
    assert values_of(tmp_path / "gone.jsonl", "origin detail") == [
        ("rows.jsonl", detail),
        ("rows.jsonl", detail),
        ("more.jsonl", detail),
    ]
    inputs = report_beside(out)["inputs"]
    assert [line["name"] for line in inputs] == ["rows.jsonl", "more.jsonl"]


def test_sets_of_one_name_have_the_whole_name_as_origin(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, edited in {"a": ROWS[1], "b": ROWS[4]}.items():
        folder = Path(name)
        folder.mkdir()
        write_rows(folder / "rows.jsonl", [edited])
    EDITPACK.output("dedup a/rows.jsonl b/rows.jsonl --out out.jsonl")
    assert values_of(Path("out.jsonl"), "origin commit") == [
        ("a/rows.jsonl", "c2"),
        ("b/rows.jsonl", "c5"),
    ]
    assert "no rows given" in EDITPACK.refusal("dedup --out out.jsonl")
    error = EDITPACK.refusal("dedup a/rows.jsonl a/rows.jsonl --out out.jsonl")
    assert "the same rows are given twice" in error


@pytest.mark.long
def test_mined_rows_lose_as_many_as_by_all_pairs(tmp_path: Path) -> None:
    """Needs bare mirrors of requests and flask in the folder that ``SWE_MIRRORS`` names."""
    from scipy.cluster.hierarchy import DisjointSet

    folder = environ.get(MIRRORS)
    mined = tmp_path / "mined.jsonl"
    with mined.open("wb") as handle:
        for repo, commit in {
            "psf/requests": "1f6589ec",
            "pallets/flask": "2ac89889",
        }.items():
            mirror = None
            if folder:
                mirror = Mirrors(Path(folder)).find(repo)
            if mirror is None:
                pytest.skip(f"{MIRRORS} names no folder with a mirror of {repo}")
            rows = tmp_path / f"rows-{commit}.jsonl"
            filtered = tmp_path / f"kept-{commit}.jsonl"
            EDITPACK.output(f"mine {mirror} --set mine.refs={commit} --out {rows}")
            EDITPACK.output(f"filter {rows} --out {filtered}")
            handle.write(filtered.read_bytes())
    dedup(tmp_path, f"{mined}")
    count = len(read_rows(tmp_path / "out.jsonl"))
    sets = []
    for mined_row in read_rows(mined):
        sets.append(shingles(with_content(mined_row)["content"]))
    exact = DisjointSet(range(len(sets)))
    for first, second in combinations(range(len(sets)), 2):
        shared = len(sets[first] & sets[second])
        if shared >= 0.5 * len(sets[first] | sets[second]):
            exact.merge(first, second)
    exact_count = exact.n_subsets
    print(f"{len(sets)} rows, {exact_count} by all pairs, {count} kept")
    assert len(sets) > 500
    assert abs(count - exact_count) <= 0.05 * exact_count
