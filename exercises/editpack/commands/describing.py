"""``stats``: describe rows by a table, JSON and pictures."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import typer
from tqdm import tqdm

from core.atomic import check_folder, write_json_atomic, write_text_atomic
from core.errors import UserError
from core.options import Folder, built, command, option, option_group
from core.plaintext import counted, shortened
from exercises.editpack.describing.nouns import root_noun_finder
from exercises.editpack.describing.tables import stats_lines
from exercises.editpack.files import RowInput, input_record, report_of, used_versions
from exercises.editpack.messages import read_verbs
from exercises.editpack.rows import UNREADABLE, DroppedRow, RowSource, file_digest
from exercises.editpack.stats import WORDS, EditStats, EditTally, edit_stats, stats_json
from runs.options import out_option

STATS = "table.json"
"""The statistics (docs/editpack-stats.schema.json); written last."""
_SHOWN = 200


@option_group
class DescriptionOptions:
    """What ``stats`` is asked for."""

    given: RowInput
    out: Folder = out_option("The folder of table, JSON and pictures.", default=Path("stats"))
    tokenizer: Path | None = option(
        None,
        "Folder of a tokenizer, or its tokenizer.json, to count tokens; default: words.",
        "--tokenizer",
    )


@command(DescriptionOptions)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Describe rows: a table beside the published ones, JSON, and two pictures."""
    asked = built(DescriptionOptions, values)
    source, began = asked.given.source(), time.monotonic()
    check_folder("--out", asked.out)
    tokens_of, tokenizer = token_counter(asked.tokenizer)
    noun_of, nouns = root_noun_finder()
    tally = EditTally(read_verbs(), tokens_of, noun_of)
    unreadable = _count(source, tally, skip_bad=asked.given.skip_bad)
    record = input_record(source)
    stats = edit_stats(tally, record["name"], record["sha256"], unreadable, tokenizer, nouns)
    _write(asked.out, stats, tally)
    report = {
        "command": "stats",
        "inputs": [record],
        "output": {"name": f"{asked.out.name}/{STATS}", "sha256": _digest(asked.out / STATS)},
        "rows": tally.rows + unreadable,
        "kept": tally.rows,
        "dropped": {UNREADABLE: unreadable} if unreadable else {},
        "options": {"skip_bad": asked.given.skip_bad, "tokenizer": tokenizer, "nouns": nouns},
        "versions": used_versions(("rapidfuzz", "matplotlib", "tokenizers", "spacy")),
        "seconds": round(time.monotonic() - began, 3),
    }
    write_json_atomic(report_of(asked.out), report)
    print("\n".join(stats_lines(stats)))
    print(f"\nstatistics of {counted(tally.rows, 'row')} in {asked.out}, the report beside it")


def _count(source: RowSource, tally: EditTally, *, skip_bad: bool) -> int:
    """Count the rows and return how many are none."""
    unreadable = 0
    for row in tqdm(source.rows(skip_bad=skip_bad), "stats", unit=" rows", disable=None):
        if isinstance(row, DroppedRow):
            unreadable += 1
        else:
            tally.add(row)
    return unreadable


def _write(out: Path, stats: EditStats, tally: EditTally) -> None:
    for name, markdown in (("table.txt", False), ("table.md", True)):
        write_text_atomic(out / name, "\n".join(stats_lines(stats, markdown=markdown)) + "\n")
    _draw(out, stats, tally)
    write_json_atomic(out / STATS, stats_json(stats))


def _draw(out: Path, stats: EditStats, tally: EditTally) -> None:
    from exercises.editpack.describing.pictures import draw_lines, draw_verbs
    from reports.plots.write import drawn, write_picture

    wanted = {"lines": partial(draw_lines, tally.before, tally.after)}
    if any(verb.nouns for verb in stats.verbs):
        wanted["verbs"] = partial(draw_verbs, stats.verbs)
    for name in ("verbs.svg", "verbs.png", "verbs-dark.svg"):
        (out / name).unlink(missing_ok=True)  # of other rows
    for name, draw in wanted.items():
        picture = drawn(name, "", "", draw)
        write_picture(picture, out)
        write_text_atomic(out / f"{name}-dark.svg", picture.dark)


def _digest(path: Path) -> str:
    with path.open("rb") as handle:
        return file_digest(handle)


def token_counter(place: Path | None) -> tuple[Callable[[str], int], str]:
    """Return a function that counts the tokens of a message, and its name.

    Args:
        place: a ``tokenizer.json``, a folder that has one, or another folder that transformers
            saved a tokenizer in; None for words between white space.

    Raises:
        UserError: it cannot be used.
    """
    if place is None:
        return lambda text: len(text.split()), WORDS
    fix = "give a folder with tokenizer.json, or leave --tokenizer out"
    try:
        return _tokens_by(place), place.resolve().name
    except ModuleNotFoundError as error:
        raise UserError(f"--tokenizer {place} needs the package {error.name}; {fix}") from error
    except Exception as error:  # both libraries raise any class for files that they cannot read
        words = shortened(str(error), _SHOWN)
        raise UserError(f"--tokenizer {place} cannot be used ({words}); {fix}") from error


def _tokens_by(place: Path) -> Callable[[str], int]:
    path = place / "tokenizer.json" if place.is_dir() else place
    if place.is_dir() and not path.exists():
        from transformers import AutoTokenizer  # type: ignore[import-not-found, unused-ignore]

        slow = AutoTokenizer.from_pretrained(str(place), local_files_only=True)
        return lambda text: len(slow.encode(text, add_special_tokens=False))
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    # A limit in the file is for training.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
