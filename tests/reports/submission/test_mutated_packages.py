"""No mutated package ends the validator."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.evaluated import Package

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def mutate(path: Path, draw: Any) -> None:
    """Damage one file in one of many ways."""
    how = draw(
        st.sampled_from(("bytes", "cut", "delete", "folder", "link", "json", "json", "json"))
    )
    data = path.read_bytes()
    place = draw(st.integers(0, len(data)))
    path.unlink()
    if how == "bytes":
        path.write_bytes(data[:place] + draw(st.binary(max_size=9)) + data[place + 3 :])
    elif how == "cut":
        path.write_bytes(data[:place])
    elif how == "folder":
        path.mkdir()
    elif how == "link":
        path.symlink_to(draw(st.sampled_from(("/dev/zero", ".", "..", path.name, "/etc/passwd"))))
    elif how == "json":
        path.write_bytes(spoil_json(path, data, draw))


def spoil_json(path: Path, data: bytes, draw: Any) -> bytes:
    """Replace one value somewhere in a JSON, JSONL or YAML file."""
    load, dump = (
        (yaml.safe_load, yaml.safe_dump) if path.suffix == ".yaml" else (json.loads, json.dumps)
    )
    lines = data.split(b"\n") if path.suffix == ".jsonl" else [data]
    try:
        value = load(lines[0])
    except (ValueError, yaml.YAMLError):
        return data
    node, depth = value, draw(st.integers(1, 6))
    while isinstance(node, (dict, list)) and node:
        key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        depth -= 1
        if not depth or not isinstance(node[key], (dict, list)):
            node[key] = draw(JSON)
            break
        node = node[key]
    return b"\n".join([dump(value).encode("utf-8", "surrogatepass"), *lines[1:]])


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_package_ends_the_validator(data: st.DataObject, clean: Package, tmp_path: Path) -> None:
    root = tmp_path / "mutated"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(clean.root, root)
    files = sorted(p for p in root.rglob("*") if p.is_file())
    for path in data.draw(st.lists(st.sampled_from(files), min_size=1, max_size=4, unique=True)):
        mutate(path, data.draw)
    for finding in Package(root, clean.mirrors).findings(data.draw(st.booleans())):
        assert finding.line().isprintable()
