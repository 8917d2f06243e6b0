"""What a test run states of its modules, and whether that agrees with the base commit's run.

The first statement is made before anything of the tree is imported; see docs/environments.md,
"Forged output", for what this proves.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.machinery import all_suffixes
from pathlib import Path, PurePosixPath

from swe_retry.core.hashing import sha256_of
from swe_retry.core.jsontypes import JsonMapping
from swe_retry.core.worktree import Changes
from swe_retry.frameworks import Runner

Statements = Mapping[str, JsonMapping]
"""Facts by moment: ``begin``, ``files`` (before the first test file) and ``end``."""

_CODE = Path(__file__).with_name("origins_plugin.py")
_SCRIPT = """mkdir -p /tmp/{token} && trap 'rm -rf /tmp/{token}' EXIT
cat >/tmp/{token}/{name}.py <<'{mark}'
{code}
{mark}
printf '\\nspeak("%s", "%s", %s)\\n' {mark} "$PWD" '{names}' >>/tmp/{token}/{name}.py
export PYTHONPATH=/tmp/{token}${{PYTHONPATH:+:$PYTHONPATH}}
{command}"""
_MAX_BYTES = 1 << 24
_SUFFIXES = tuple(all_suffixes())


def with_statements(
    command: str,
    token: str,
    runner: Runner,
    names: Sequence[str] = (),
) -> str:
    """Return shell lines that run ``command``, whose output then holds statements.

    The runner ends at an import after those of all ``names``, if there are some.
    """
    name = "sitecustomize"
    if runner is Runner.PYTEST:
        name = f"stated_{token}"
        command = f"{command} -p {name}"
    return _SCRIPT.format(
        token=token,
        name=name,
        mark=mark_of(token),
        code=_CODE.read_text(encoding="utf-8"),
        names=json.dumps(names),
        command=command,
    )


def mark_of(token: str) -> str:
    return sha256_of(token)[:32]


def split_statements(output: str, token: str) -> tuple[str, Statements]:
    """Return ``output`` without statements, and them; none if one was made twice."""
    head = f"{mark_of(token)} "
    rows = []
    rest = []
    for line in output.split("\n"):
        if line.startswith(head):
            rows.append(line.split(" "))
        else:
            rest.append(line)
    text = "\n".join(rest)
    facts = {}
    try:
        for _, moment, packed in rows:
            data = base64.b64decode(packed)
            unpacked = zlib.decompressobj().decompress(data, _MAX_BYTES)
            facts[moment] = json.loads(unpacked)
    except (ValueError, zlib.error, RecursionError):
        return text, {}
    if len(facts) < len(rows):
        return text, {}
    return text, facts


def doubt(base: Statements, run: Statements, report: str) -> str:
    """Return why a run's results cannot be trusted; empty where they can.

    ``base`` is what the base commit's run of the same tests stated, ``report`` is pytest's.
    """
    if not base or base.keys() != run.keys():
        return "the run does not state where its modules come from"
    digest = sha256_of(report.encode("utf-8", "surrogateescape"))
    for moment in base:
        reason = next(_differences(base[moment], run[moment], digest), "")
        if reason:
            return reason
    return ""


def _differences(base: JsonMapping, run: JsonMapping, report: str) -> Iterator[str]:
    for name in base["outside"]:
        if name in run["inside"]:
            yield f"{name} is imported from {run['inside'][name]}, not from the environment"
    for what in ("hooks", "finders", "changed"):
        new = Counter[str](run.get(what, ()))
        new.subtract(base.get(what, ()))
        for name in +new:
            yield f"{name} is not as at the base commit ({what})"
    if run.get("report") not in (None, report):
        yield "the report was changed after the run"


def shadowing(
    changes: Changes,
    files: Collection[str],
    base: Statements,
) -> Iterator[str]:
    """Yield new files that imports would find in place of the environment's modules."""
    base_files = frozenset(files)
    importable = set()
    roots = {""}
    for facts in base.values():
        importable.update(facts.get("importable", ()))
        roots.update(facts["path"])
    for path in changes.keys() - base_files:
        module = PurePosixPath(path)
        if module.name.startswith("__init__."):
            module = module.parent
        root = str(module.parent)
        if root == ".":
            root = ""
        name = module.name.partition(".")[0]
        if root not in roots or name not in importable or not path.endswith(_SUFFIXES):
            continue
        package = module.with_name(name) / "__init__.py"
        own = {str(module.with_name(f"{name}.py")), str(package)}
        if not own & base_files:
            yield path
