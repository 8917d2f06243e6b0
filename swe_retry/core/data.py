"""Tables of the project itself, which lie as YAML beside the modules that use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read_yaml(module: str, name: str) -> Any:  # noqa: ANN401 - YAML
    """Return what the file ``name`` holds beside a module, whose ``__file__`` is given."""
    return yaml.safe_load(Path(module).with_name(name).read_text("utf-8"))
