"""How many changes of single values ``report.py verify`` notices, against all changes.

    python -m benchmarks.verify_changes predictions/demo [--each 2] [--seed 1]

The run, with its folder in ``logs/``, is copied first. A value is a leaf of a JSON object, the
last entry of a list, or a line of a text. Its kind is the file's kind and the place in it, without
numbers and ids. For each kind ``--each`` values are changed, one at a time; 0 changes all. A
change keeps the type: a number grows by 1, a digit of a hash and a letter of a text is replaced, a
boolean is negated, a time differs by seconds, an unknown value becomes known, a list loses its
last entry.

The share is given twice: of the changed values, and weighted by how many values a kind has.
Not changed: pages and figures, which repeat ``stats.json``, and logs for people (``*.log``).
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from swe_retry.core.errors import UserError
from swe_retry.demo import register
from swe_retry.record.store import RunStore
from swe_retry.report.verify import verify_command

_DIGITS = "0123456789abcdef"
_OURS = (".json", ".jsonl", ".md", ".yaml")
Keys = tuple[str | int, ...]


@dataclass(frozen=True)
class Value:
    """A value in a file: its line (of files with one value a line) and its keys."""

    file: Path
    line: int | None
    keys: Keys
    kind: str


def values_of(folder: Path, file: Path) -> Iterator[Value]:
    """Yield every value of a file."""
    text = file.read_text(errors="surrogateescape")
    kind = _kind(folder, file)
    if file.suffix == ".json":
        for keys in _leaves(json.loads(text)):
            yield Value(file, None, keys, f"{kind}: {_pattern(keys)}")
        return
    for number, line in enumerate(text.splitlines()):
        if file.suffix == ".jsonl":
            entry = json.loads(line)
            line_kind = kind
            if "kind" in entry:
                line_kind = f"{kind} {entry['kind']}"
            for keys in _leaves(entry):
                yield Value(file, number, keys, f"{line_kind}: {_pattern(keys)}")
        elif line.strip():
            yield Value(file, number, (), f"{kind}: line")


def _kind(folder: Path, file: Path) -> str:
    """Return the file's place in the run, ``<id>`` for the name of an instance."""
    top, _, *parts = file.relative_to(folder).parts
    name = "/".join(parts)
    ids = [path.stem for path in folder.glob("predictions/*/*.md")]
    for instance_id in sorted(ids, key=len, reverse=True):
        name = name.replace(instance_id, "<id>")
    name = re.sub(r"[0-9a-f]{16}", "<hash>", name)
    if top == "logs":
        return f"logs: {name}"
    return name


def _leaves(value: Any, keys: Keys = ()) -> Iterator[Keys]:  # noqa: ANN401 - any JSON value
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, (*keys, key))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _leaves(part, (*keys, number))
        if value:
            yield keys  # stands for its last entry, which is dropped
    else:
        yield keys


def _pattern(keys: Keys) -> str:
    """Return keys in words, without numbers and ids."""
    parts = []
    for key in keys:
        if isinstance(key, int):
            parts.append("[]")
        elif "__" in key:
            parts.append("<id>")
        else:
            parts.append(key)
    return ".".join(parts)


def another_value(value: Any, chance: random.Random) -> Any:  # noqa: ANN401 - any JSON value
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, list):
        return value[:-1]
    if value is None:
        return chance.choice([1, "x", True])
    if re.fullmatch(r"-?\d+(\.\d+)?", value):
        return str(float(value) + 1)
    if re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)", value):
        second = int(value[18])
        return f"{value[:18]}{(second + 1) % 10}{value[19:]}"
    index = 0
    if value:
        index = chance.randrange(len(value))
    letters = "abcxyz"
    if re.fullmatch("[0-9a-f]{40,}", value):
        letters = _DIGITS
    old = value[index : index + 1]
    new = chance.choice([letter for letter in letters if letter != old])
    return value[:index] + new + value[index + 1 :]


def write_another(value: Value, chance: random.Random) -> str:
    """Write the file with one value changed, and return the change in words."""
    text = value.file.read_text(errors="surrogateescape")
    lines = text.splitlines(keepends=True)
    part = text
    if value.line is not None:
        part = lines[value.line].rstrip("\n")
    if value.file.suffix == ".md":
        old = part
        new = another_value(old, chance)
        part = new
    else:
        # In a list, so that the value without keys has a parent as well.
        content = [json.loads(part)]
        parent: Any = content
        last: str | int = 0
        for key in value.keys:
            parent = parent[last]
            last = key
        old = parent[last]
        new = another_value(old, chance)
        parent[last] = new
        part = json.dumps(content[0], indent=1 if value.line is None else None)
    change = f"{old!r:.60} → {new!r:.60}"
    if value.line is not None:
        lines[value.line] = f"{part}\n"
        part = "".join(lines)
    value.file.write_text(part, errors="surrogateescape")
    return change


def main(
    run: Annotated[Path, typer.Argument(help="The run: a folder under predictions/.")],
    each: Annotated[int, typer.Option(help="Changed values of each kind; 0: all.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the changes.")] = 1,
    only: Annotated[str, typer.Option(help="Only kinds that contain this.")] = "",
    checksums: Annotated[
        bool, typer.Option(help="Compare with checksums; else only what is derived.")
    ] = True,
) -> None:
    """Print the share that is noticed and the rest; exit with 1 if less than 95 % is noticed."""
    register()
    chance = random.Random(seed)
    store = RunStore.of_folder(run)
    with TemporaryDirectory() as name:
        out = Path(name) / "out"
        folder = out / "predictions" / store.run
        shutil.copytree(store.folder, folder)
        if not checksums:
            (folder / "checksums.txt").unlink(missing_ok=True)
        if store.logs.is_dir():
            shutil.copytree(store.logs, out / "logs" / store.run)
        if _has_differences(folder):
            raise SystemExit(
                f"error: {run} has differences already; see report.py verify {run}"
            )
        kinds: dict[str, list[Value]] = defaultdict(list)
        for file in sorted(out.rglob("*")):
            if file.suffix in _OURS and file.is_file():
                for value in values_of(out, file):
                    kinds[value.kind].append(value)
        changes = 0
        noticed = 0
        values_in_all = 0
        weighted = 0.0
        for kind, values in sorted(kinds.items()):
            if only not in kind:
                continue
            sample = values
            if each:
                sample = chance.sample(values, min(each, len(values)))
            noticed_of_kind = 0
            for value in sample:
                before = value.file.read_bytes()
                change = write_another(value, chance)
                if _has_differences(folder):
                    noticed_of_kind += 1
                else:
                    print(f"not noticed: {kind} ({len(values)}): {change}", flush=True)
                value.file.write_bytes(before)
            changes += len(sample)
            noticed += noticed_of_kind
            values_in_all += len(values)
            weighted += len(values) * noticed_of_kind / len(sample)
    share = noticed / changes
    print(
        f"noticed: {noticed} of {changes} changes ({share:.1%}), in {len(kinds)} kinds"
    )
    weighted_share = weighted / values_in_all
    print(f"weighted by the {values_in_all} values of the run: {weighted_share:.1%}")
    raise typer.Exit(share < 0.95)


def _has_differences(folder: Path) -> bool:
    try:
        return verify_command([folder], lambda _: None) != 0
    except UserError:  # which ends the command with the code 2
        return True


if __name__ == "__main__":
    typer.run(main)
