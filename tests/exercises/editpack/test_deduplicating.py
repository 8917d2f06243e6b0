"""The commands ``dedup`` and ``sample`` on files of rows."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from os import environ
from pathlib import Path
from typing import Any

import pytest

from bench.repos.mirrors import Mirrors
from exercises.editpack.dedup import shingles
from exercises.editpack.rows import EditRow, with_content
from tests.support.editpack import SKIP_BAD, editpack, write_rows

MIRRORS = "SWE_MIRRORS"
SEED = ("--set", "sample.seed=4")
LONG = " ".join(f"word{n}" for n in range(40))


def row(number: int, body: str, **columns: Any) -> EditRow:
    """Return a row whose prompt has mostly words of its own, but for the body."""
    old = f"{body}\nold_{number} = {number}\n"
    new = f"{body}\nnew_{number} = {number}\n"
    edit = {"old_contents": old, "new_contents": new, "message": f"Change {number}"}
    return {"commit": f"c{number}", **edit, **columns}


ROWS = [
    row(1, LONG, date="2020-05-01T12:00:00+02:00"),
    row(2, "alpha = beta(gamma)\n" * 9, date="2020-05-01"),
    row(3, LONG, author_date="2020-05-01T10:30:00Z"),
    row(4, LONG + " and_more", date="2019-01-01"),
    row(5, "delta = epsilon(zeta)\n" * 9, date="2021-01-01"),
]


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", ROWS)


def test_one_row_of_each_cluster_stays(
    tmp_path: Path,
    rows: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out.jsonl"
    dropped = tmp_path / "gone.jsonl"
    files = ("--out", out, "--dropped", dropped)
    assert editpack("dedup", rows, *files) == 0
    assert (
        "1 cluster, the largest of 3 rows; 71 bands × 7 rows" in capsys.readouterr().out
    )
    assert read(out) == [with_content(ROWS[n]) for n in (0, 1, 4)]
    assert [(one["commit"], one["rule"], one["detail"]) for one in read(dropped)] == [
        ("c3", "duplicate", "of row 1, commit c1"),
        ("c4", "duplicate", "of row 1, commit c1"),
    ]
    report = json.loads((tmp_path / "out.jsonl.report.json").read_text())
    assert (report["rows"], report["kept"], report["dropped"]) == (
        5,
        3,
        {"duplicate": 2},
    )
    assert (report["clusters"], report["largest_cluster"], report["short"]) == (1, 3, 0)
    assert (report["bands"], report["rows_per_band"]) == (71, 7)
    assert report["options"] == {
        "skip_bad": False,
        "threshold": 0.5,
        "permutations": 500,
        "seed": 1,
    }
    assert report["versions"]["datasketch"].startswith("2.")


def test_a_content_of_something_else_is_made_again(
    tmp_path: Path,
) -> None:
    given = [{**one, "content": "the same text of five tokens"} for one in ROWS]
    rows = write_rows(tmp_path / "rows.jsonl", given)
    out = tmp_path / "out.jsonl"
    plain = write_rows(tmp_path / "plain.jsonl", ROWS)
    same = tmp_path / "same.jsonl"
    assert editpack("dedup", rows, "--out", str(out)) == 0
    assert editpack("dedup", plain, "--out", str(same)) == 0
    assert read(out) == read(same)


def test_what_is_no_row_keeps_its_number(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ["no row", *ROWS])
    out = tmp_path / "out.jsonl"
    dropped = tmp_path / "gone.jsonl"
    words = ("--out", out, "--dropped", dropped, *SKIP_BAD)
    assert editpack("dedup", rows, *words) == 0
    assert [one["rule"] for one in read(dropped)] == [
        "unreadable",
        "duplicate",
        "duplicate",
    ]
    assert read(dropped)[-1]["detail"] == "of row 2, commit c1"
    assert editpack("dedup", rows, "--out", str(tmp_path / "other.jsonl")) == 2
    assert not (tmp_path / "other.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dedup.threshold=0", "dedup.threshold 0: must be greater than 0"),
        ("dedup.threshold=1.1", "dedup.threshold 1.1: must be at most 1"),
        (
            "dedup.threshold=1",
            "leaves no bands; give a lower threshold or more permutations",
        ),
        ("dedup.permutations=20000", "dedup.permutations 20000: must be at most 10000"),
        ("rows.skip_bad=perhaps", "rows.skip_bad perhaps: must be a valid boolean"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    text: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(
        tmp_path / "rows.jsonl", [row(6, "x", author_date="yesterday"), row(7, "x")]
    )
    assert editpack("dedup", "rows.jsonl", "--out", "out.jsonl", "--set", text) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


def sample(rows: Path, out: Path, *words: str) -> list[str]:
    assert editpack("sample", rows, "--out", str(out), *words) == 0
    return [one["commit"] for one in read(out)]


def test_a_sample_is_in_the_order_of_the_input(
    tmp_path: Path,
    rows: Path,
) -> None:
    out = tmp_path / "out.jsonl"
    dropped = tmp_path / "gone.jsonl"
    three = sample(rows, out, "--size", "3", *SEED, "--dropped", str(dropped))
    assert three == sorted(three)
    assert sorted(three + [one["commit"] for one in read(dropped)]) == [
        "c1",
        "c2",
        "c3",
        "c4",
        "c5",
    ]
    assert {one["rule"] for one in read(dropped)} == {"unsampled"}
    assert read(out) == [one for one in ROWS if one["commit"] in three]
    report = json.loads((tmp_path / "out.jsonl.report.json").read_text())
    assert report["options"] == {"n": 3, "seed": 4, "skip_bad": False}
    assert sample(rows, out, "--size", "3", *SEED) == three
    assert sample(rows, out, "--size", "5") == ["c1", "c2", "c3", "c4", "c5"]


def test_each_row_is_as_likely_to_be_in_a_sample(
    tmp_path: Path,
) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", ["no row", *ROWS])
    times: Counter[str] = Counter()
    for seed in range(100):
        words = ("--size", "2", "--set", f"sample.seed={seed}", *SKIP_BAD)
        times.update(sample(rows, tmp_path / "out.jsonl", *words))
    assert set(times) == {"c1", "c2", "c3", "c4", "c5"}
    # 40 each: 20 is four deviations away.
    assert min(times.values()) > 20


def test_a_sample_of_more_rows_than_there_are_is_refused(
    tmp_path: Path,
    rows: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert editpack("sample", rows, "--out", str(tmp_path / "out.jsonl")) == 2
    assert "--size 25000: " in (error := capsys.readouterr().err)
    assert error.strip().endswith("rows.jsonl has 5 rows; ask for fewer")


def test_several_sets_have_origins_and_are_deduplicated(
    tmp_path: Path,
    rows: Path,
) -> None:
    more = write_rows(
        tmp_path / "more.jsonl", [row(8, LONG), row(9, "eta = theta(iota)\n" * 9)]
    )
    out = tmp_path / "out.jsonl"
    dropped = tmp_path / "gone.jsonl"
    words = (
        "--out",
        str(out),
        "--dropped",
        str(dropped),
    )
    assert editpack("dedup", rows, more, *words) == 0
    assert [(one["origin"], one["commit"]) for one in read(out)] == [
        ("rows.jsonl", "c1"),
        ("rows.jsonl", "c2"),
        ("rows.jsonl", "c5"),
        ("more.jsonl", "c9"),
    ]
    assert [(one["origin"], one["detail"]) for one in read(dropped)] == [
        ("rows.jsonl", "of row 1 of rows.jsonl, commit c1"),
        ("rows.jsonl", "of row 1 of rows.jsonl, commit c1"),
        ("more.jsonl", "of row 1 of rows.jsonl, commit c1"),
    ]
    report = json.loads((tmp_path / "out.jsonl.report.json").read_text())
    assert [one["name"] for one in report["inputs"]] == ["rows.jsonl", "more.jsonl"]


def test_sets_of_one_name_have_the_whole_name_as_origin(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, one in (("a", ROWS[1]), ("b", ROWS[4])):
        Path(name).mkdir()
        write_rows(Path(name) / "rows.jsonl", [one])
    out = ("--out", "out.jsonl")
    assert editpack("dedup", "a/rows.jsonl", "b/rows.jsonl", *out) == 0
    assert [one["origin"] for one in read(Path("out.jsonl"))] == [
        "a/rows.jsonl",
        "b/rows.jsonl",
    ]
    assert editpack("dedup", *out) == 2
    assert editpack("dedup", "a/rows.jsonl", "a/rows.jsonl", *out) == 2
    error = capsys.readouterr().err
    assert "no rows given" in error
    assert "the same rows are given twice" in error


@pytest.mark.long
def test_mined_rows_lose_as_many_as_by_all_pairs(
    tmp_path: Path,
) -> None:
    """Needs bare mirrors of requests and flask in the folder that ``SWE_MIRRORS`` names."""
    mined = tmp_path / "mined.jsonl"
    with mined.open("wb") as handle:
        for repo, commit in (
            ("psf/requests", "1f6589ec"),
            ("pallets/flask", "2ac89889"),
        ):
            mirror = None
            folder = environ.get(MIRRORS)
            if folder:
                mirror = Mirrors(Path(folder)).find(repo)
            if mirror is None:
                pytest.skip(f"{MIRRORS} names no folder with a mirror of {repo}")
            rows, kept = (
                str(tmp_path / f"{name}-{commit}.jsonl") for name in ("rows", "kept")
            )
            assert (
                editpack("mine", mirror, "--set", f"mine.refs={commit}", "--out", rows)
                == 0
            )
            assert editpack("filter", rows, "--out", kept) == 0
            handle.write(Path(kept).read_bytes())
    out = tmp_path / "out.jsonl"
    assert editpack("dedup", str(mined), "--out", str(out)) == 0
    texts = [with_content(one)["content"] for one in read(mined)]
    from scipy.cluster.hierarchy import DisjointSet

    sets = [shingles(text) for text in texts]
    exact = DisjointSet(range(len(texts)))
    for one, other in combinations(range(len(sets)), 2):
        if len(sets[one] & sets[other]) >= 0.5 * len(sets[one] | sets[other]):
            exact.merge(one, other)
    kept_by_all_pairs = exact.n_subsets
    print(f"{len(texts)} rows, {kept_by_all_pairs} by all pairs, {len(read(out))} kept")
    assert len(texts) > 500
    assert abs(len(read(out)) - kept_by_all_pairs) <= 0.05 * kept_by_all_pairs
