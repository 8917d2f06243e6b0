"""What a test run states of its modules, and whether that agrees with the base commit's run.

The first statement is made before anything of the tree is imported; see docs/environments.md,
"Forged output", for what this proves.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.machinery import all_suffixes
from pathlib import Path, PurePosixPath
from typing import Any

from bench.regression.runners import Runner
from core.worktree import Changes

Stated = Mapping[str, Mapping[str, Any]]
"""Facts by moment: ``begin``, ``files`` (before the first test file) and ``end``."""

_CODE = Path(__file__).with_name("stating.py")
_SCRIPT = """mkdir -p /tmp/{token} && trap 'rm -rf /tmp/{token}' EXIT
cat >/tmp/{token}/{name}.py <<'{mark}'
{code}
{mark}
printf '\\nspeak("%s", "%s", %s)\\n' {mark} "$PWD" '{names}' >>/tmp/{token}/{name}.py
export PYTHONPATH=/tmp/{token}${{PYTHONPATH:+:$PYTHONPATH}}
{command}"""
_LARGEST = 1 << 24
_SUFFIXES = tuple(all_suffixes())


def stating(command: str, token: str, runner: Runner, names: Sequence[str] = ()) -> str:
    """Return shell lines that run ``command``, whose output then holds statements.

    The runner ends at an import after those of all ``names``, if there are some.
    """
    plugin = runner is Runner.PYTEST
    name = f"stated_{token}" if plugin else "sitecustomize"
    return _SCRIPT.format(
        token=token,
        name=name,
        mark=mark_of(token),
        code=_CODE.read_text(encoding="utf-8"),
        names=json.dumps(names),
        command=f"{command} -p {name}" if plugin else command,
    )


def mark_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()[:32]


def split_statements(output: str, token: str) -> tuple[str, Stated]:
    """Return ``output`` without statements, and them; none if one was made twice."""
    head = f"{mark_of(token)} "
    lines = output.split("\n")
    said = [line.split(" ") for line in lines if line.startswith(head)]
    kept = "\n".join(line for line in lines if not line.startswith(head))
    try:
        found = {}
        for _, moment, packed in said:
            unpacked = zlib.decompressobj().decompress(
                base64.b64decode(packed), _LARGEST
            )
            found[moment] = json.loads(unpacked)
    except (ValueError, zlib.error, RecursionError):
        return kept, {}
    return kept, found if len(found) == len(said) else {}


def doubt(base: Stated, run: Stated, report: str) -> str:
    """Return why a run's results cannot be trusted; empty where they can.

    ``base`` is what the base commit's run of the same tests stated, ``report`` is pytest's.
    """
    if not base or base.keys() != run.keys():
        return "the run does not state where its modules come from"
    hashed = hashlib.sha256(report.encode("utf-8", "surrogateescape")).hexdigest()
    return next(
        (words for m in base for words in _differences(base[m], run[m], hashed)), ""
    )


def _differences(
    base: Mapping[str, Any], run: Mapping[str, Any], report: str
) -> Iterator[str]:
    for name in base["outside"]:
        if name in run["inside"]:
            yield f"{name} is imported from {run['inside'][name]}, not from the environment"
    if base.get("entries") != run.get("entries"):
        yield "the installed plugins of pytest are not those of the base commit"
    for what in ("plugins", "finders", "changed"):
        for name in Counter(run.get(what, ())) - Counter(base.get(what, ())):
            yield f"{name} is not as at the base commit ({what})"
    if run.get("report") not in (None, report):
        yield "the report was changed after the run"


def shadowing(changes: Changes, files: Collection[str], base: Stated) -> Iterator[str]:
    """Yield new files that imports would find in place of the environment's modules."""
    known = frozenset(files)
    names = {name for facts in base.values() for name in facts.get("importable", ())}
    roots = {"", *(place for facts in base.values() for place in facts["path"])}
    for path in changes.keys() - known:
        place = PurePosixPath(path)
        module = place.parent if place.name.startswith("__init__.") else place
        root = "" if str(module.parent) == "." else str(module.parent)
        name = module.name.partition(".")[0]
        own = {
            str(module.with_name(f"{name}.py")),
            str(module.with_name(name) / "__init__.py"),
        }
        if (
            root in roots
            and name in names
            and path.endswith(_SUFFIXES)
            and not own & known
        ):
            yield path
