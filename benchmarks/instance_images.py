"""Build images of instances, and the rows for their evaluation.

    python -m benchmarks.instance_images --dataset lite.jsonl --mirrors MIRRORS --out DIR ID...

For machines whose engine reaches no registry. Needs root, debootstrap, bubblewrap, pyenv's
interpreters and a package index. Writes the rows with the columns of swebench 5 to
``DIR/instances.jsonl``: ``eval_script`` is made from ``spec``, the test lists from runs with and
without the gold patch. With ``--tag TAG`` it writes to ``instances-TAG.jsonl`` and copies known
test lists: this is for the same instance with another installer, as ``--pip 'pip>=25.3' --tag
recent-pip``, whose ``pip install .`` fails without network.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.cli import run_cli
from bench.instances.instance import derived_image, split_row
from bench.repos.mirrors import Mirrors
from benchmarks.evaluation_rows import GoldRuns, Row, evaluation_columns
from benchmarks.image_layers import TOOLS, Base, Builder
from core.atomic import write_text_atomic
from core.errors import InfrastructureError, UserError
from environments import UnavailableError
from environments.docker.engine import connect
from environments.docker.images import holds

ROWS = "instances.jsonl"
_LATEST = "latest"
_LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS")


def main(
    ids: Annotated[list[str], typer.Argument(help="Ids of instances.")],
    dataset: Annotated[Path, typer.Option(help="Rows with `spec`, one JSON object per line.")],
    mirrors: Annotated[Path, typer.Option(help="Folder of bare mirrors.")],
    out: Annotated[Path, typer.Option(help="Folder for rows, logs and cached files.")],
    pyenv: Annotated[Path, typer.Option(help="Folder of interpreters.")] = Path(
        "~/.pyenv/versions"
    ),
    debootstrap_mirror: Annotated[
        str, typer.Option(help="URL of a Debian mirror.")
    ] = "http://deb.debian.org/debian",
    pip: Annotated[str, typer.Option(help="Requirement for pip in the images.")] = TOOLS[0],
    tag: Annotated[str, typer.Option(help="Tag of the images.")] = _LATEST,
    rebuild: Annotated[bool, typer.Option(help="Build existing images again.")] = False,
    timeout: Annotated[int, typer.Option(help="Time limit of one test run in seconds.")] = 1800,
) -> None:
    """Build the images of IDS and write their rows to OUT/instances.jsonl; exit 1 if one fails."""
    client = connect()
    if client is None:
        raise UserError("no Docker engine answers: start one")
    out = out.expanduser().resolve()
    rows = read_rows(dataset)
    base = Base(out / "base" / "rootfs", debootstrap_mirror)
    base.make(client, out / "logs" / "base.log")
    tools = [pip, *TOOLS[1:]]
    builder = Builder(client, base, Mirrors(mirrors.expanduser()), pyenv.expanduser(), out, tools)
    runs = GoldRuns(client, timeout, out / "gold-runs" / tag)
    for name in ids:
        if name not in rows:
            raise UserError(f"{dataset} has no row {name}; give ids that it has")
    known = read_rows(out / ROWS) if (out / ROWS).exists() else {}
    failed = 0
    for name in ids:
        try:
            row = _made(rows[name], builder, tag, rebuild=rebuild)
            row |= _test_lists(row, runs, known if tag != _LATEST else {})
        except (UnavailableError, InfrastructureError) as error:
            print(f"{name}: {error}", flush=True)
            failed += 1
            continue
        _note(out / rows_name(tag), row)
        lists = f"{len(row['FAIL_TO_PASS'])} to fix, {len(row['PASS_TO_PASS'])} to keep"
        print(f"{name}: {row['image']}, {lists}", flush=True)
    sys.exit(failed > 0)


def _made(row: Row, builder: Builder, tag: str, *, rebuild: bool) -> Row:
    """Build the image of ``row`` and return the row with all columns but the test lists."""
    instance, _ = split_row(row)
    if instance.spec is None:
        raise UserError(f"instance {instance.instance_id}: the row has no `spec`; add it")
    image = derived_image(instance.instance_id).removesuffix(_LATEST) + tag
    if rebuild or not holds(builder.client, image):
        builder.build(instance, instance.spec, image)
    spec = json.loads(row["spec"]) if isinstance(row["spec"], str) else row["spec"]
    return {**row, "spec": spec, **evaluation_columns({**row, "spec": spec}, image)}


def _test_lists(row: Row, runs: GoldRuns, known: Mapping[str, Row]) -> Row:
    if old := known.get(row["instance_id"]):
        return {key: old[key] for key in _LISTS}
    lists = runs.test_lists(row)
    return dict(zip(_LISTS, (list(lists.fail_to_pass), list(lists.pass_to_pass)), strict=True))


def rows_name(tag: str = _LATEST) -> str:
    """Return the name of the file with the rows of images with ``tag``."""
    return ROWS if tag == _LATEST else f"instances-{tag}.jsonl"


def read_rows(path: Path) -> dict[str, Row]:
    """Return the rows of a JSON lines file by id.

    Raises:
        UserError: it cannot be read.
    """
    try:
        lines = path.expanduser().read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
        return {row["instance_id"]: row for row in rows}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} cannot be read as rows, one JSON object a line: {error}") from None


def _note(path: Path, row: Row) -> None:
    """Add ``row`` to the file, or replace an older row."""
    known: Mapping[str, Row] = read_rows(path) if path.exists() else {}
    rows: Sequence[Row] = list(({**known, row["instance_id"]: row}).values())
    write_text_atomic(path, "".join(f"{json.dumps(row)}\n" for row in rows))


if __name__ == "__main__":
    sys.exit(run_cli(main, "benchmarks.instance_images"))
