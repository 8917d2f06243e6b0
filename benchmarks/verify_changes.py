"""Change single values in all files of a run, and count how many ``report.py verify`` notices.

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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from core.errors import UserError
from demo import register
from reports.verify import verify_command
from runs.storage.store import RunStore

_DIGITS = "0123456789abcdef"
_OURS = (".json", ".jsonl", ".md", ".yaml")


@dataclass(frozen=True)
class Value:
    """A value in a file: its line (of files with one value a line) and its keys."""

    file: Path
    line: int | None
    keys: tuple[str | int, ...]
    kind: str


def values_of(folder: Path, file: Path) -> Iterator[Value]:
    """Yield every value of a file."""
    text = file.read_text(errors="surrogateescape")
    kind = _kind(folder, file)
    if file.suffix == ".json":
        for keys in _places(json.loads(text)):
            yield Value(file, None, keys, f"{kind}: {_named(keys)}")
        return
    for number, line in enumerate(text.splitlines()):
        if file.suffix == ".jsonl":
            entry = json.loads(line)
            named = kind
            if "kind" in entry:
                named = f"{kind} {entry['kind']}"
            for keys in _places(entry):
                yield Value(file, number, keys, f"{named}: {_named(keys)}")
        elif line.strip():
            yield Value(file, number, (), f"{kind}: line")


def _kind(folder: Path, file: Path) -> str:
    """Return the file's place in the run, ``<id>`` for the name of an instance."""
    known = sorted((path.stem for path in folder.glob("predictions/*/*.md")), key=len)[
        ::-1
    ]
    name = "/".join(file.relative_to(folder).parts[2:])
    for one in known:
        name = name.replace(one, "<id>")
    name = re.sub(r"[0-9a-f]{16}", "<hash>", name)
    if file.relative_to(folder).parts[0] == "logs":
        return f"logs: {name}"
    return name


def _places(
    value: Any,  # noqa: ANN401 - any JSON value
    keys: tuple[str | int, ...] = (),
) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _places(part, (*keys, key))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _places(part, (*keys, number))
        if value:
            yield keys  # stands for its last entry, which is dropped
    else:
        yield keys


def _named(keys: tuple[str | int, ...]) -> str:
    return ".".join(
        "[]" if isinstance(key, int) else "<id>" if "__" in key else key for key in keys
    )


def changed(value: Any, chance: random.Random) -> Any:  # noqa: ANN401 - any JSON value
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
    place = 0
    if value:
        place = chance.randrange(len(value))
    old = value[place : place + 1]
    letters = "abcxyz"
    if re.fullmatch("[0-9a-f]{40,}", value):
        letters = _DIGITS
    new = chance.choice([one for one in letters if one != old])
    return value[:place] + new + value[place + 1 :]


def write_changed(value: Value, chance: random.Random) -> str:
    """Write the file with one value changed, and return the change in words."""
    text = value.file.read_text(errors="surrogateescape")
    lines = text.splitlines(keepends=True)
    part = text
    if value.line is not None:
        part = lines[value.line].rstrip("\n")
    if value.file.suffix == ".md":
        new = changed(part, chance)
        words = f"{part!r:.60} → {new!r:.60}"
    else:
        whole = json.loads(part)
        parent = None
        held = whole
        for key in value.keys:
            parent = held
            held = held[key]
        other = changed(held, chance)
        if parent is None:
            whole = other
        else:
            parent[value.keys[-1]] = other
        words = f"{held!r:.60} → {other!r:.60}"
        new = json.dumps(whole, indent=1 if value.line is None else None)
    if value.line is not None:
        lines[value.line] = f"{new}\n"
        new = "".join(lines)
    value.file.write_text(new, errors="surrogateescape")
    return words


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
        left_out = () if checksums else ("checksums.txt",)
        shutil.copytree(
            store.folder,
            out / "predictions" / store.run,
            ignore=shutil.ignore_patterns(*left_out),
        )
        if store.logs.is_dir():
            shutil.copytree(store.logs, out / "logs" / store.run)
        folder = out / "predictions" / store.run

        def noticed() -> bool:
            try:
                return verify_command([folder], lambda _: None) != 0
            except UserError:  # which ends the command with the code 2
                return True

        if noticed():
            raise SystemExit(
                f"error: {run} has differences already; see report.py verify {run}"
            )
        kinds: dict[str, list[Value]] = {}
        for file in sorted(out.rglob("*")):
            if file.suffix in _OURS and file.is_file():
                for value in values_of(out, file):
                    kinds.setdefault(value.kind, []).append(value)
        found = total = 0
        weighted = 0.0
        for kind, values in sorted(kinds.items()):
            if only not in kind:
                continue
            picked = (
                values if not each else chance.sample(values, min(each, len(values)))
            )
            good = 0
            for value in picked:
                before = value.file.read_bytes()
                words = write_changed(value, chance)
                seen = noticed()
                value.file.write_bytes(before)
                good += seen
                if not seen:
                    print(f"not noticed: {kind} ({len(values)}): {words}", flush=True)
            found = found + good
            total = total + len(picked)
            weighted += len(values) * good / len(picked)
        every = sum(len(values) for kind, values in kinds.items() if only in kind)
    print(
        f"noticed: {found} of {total} changes ({found / total:.1%}), in {len(kinds)} kinds"
    )
    print(f"weighted by the {every} values of the run: {weighted / every:.1%}")
    raise typer.Exit(int(found < 0.95 * total))


if __name__ == "__main__":
    typer.run(main)
