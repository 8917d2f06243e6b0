"""Run mini-swe-agent's own SWE-bench loop on prepared checkouts; it is run by its own Python.

Arguments: a folder for results, the address of a model, ``tools`` or ``text``, and a file of rows
with ``checkout``.
"""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

SUBMIT = "mini-swe-agent submits"


def main(out: Path, address: str, kind: str, rows: list[dict[str, Any]]) -> None:
    """Work on each row as its command ``mini-extra swebench`` does."""
    from minisweagent.config import get_config_from_spec  # type: ignore[import-not-found]
    from minisweagent.run.benchmarks.swebench import (  # type: ignore[import-not-found]
        RunBatchProgressManager,
        process_instance,
    )

    spec = "swebench.yaml" if kind == "tools" else "swebench_backticks.yaml"
    config = get_config_from_spec(f"benchmarks/{spec}" if False else spec)
    for row in rows:
        config["environment"] = {"environment_class": "local", "cwd": row["checkout"]}
        config["model"] |= {"model_name": "gpt-4o"}
        config["model"]["model_kwargs"] = {"api_base": address, "api_key": "none"}
        progress = RunBatchProgressManager(1, out / "exit_statuses.yaml")
        with contextlib.suppress(Exception):
            process_instance(row, out, config, progress)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(Path(sys.argv[4]).read_text()))
