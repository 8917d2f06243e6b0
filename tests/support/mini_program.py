from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

AGENT = {
    "system_template": "You work in a shell.",
    "instance_template": "Resolve this issue:\n{{task}}",
    "step_limit": 20,
    "cost_limit": 3.0,
}
OBSERVATION = "exit code {{output.returncode}}\n{{output.output}}"


def main(
    out: Path,
    address: str,
    rows: list[dict[str, Any]],
) -> None:
    """Work on each row as the command ``mini-extra swebench`` does."""
    from minisweagent.run.benchmarks.swebench import (  # type: ignore[import-not-found]
        RunBatchProgressManager,
        process_instance,
    )

    model = {
        "model_name": "gpt-4o",
        "model_kwargs": {"api_base": address, "api_key": "none"},
        "observation_template": OBSERVATION,
        "format_error_template": "Call the tool.",
    }
    for row in rows:
        environment = {"environment_class": "local", "cwd": row["checkout"]}
        config = {"agent": AGENT, "model": model, "environment": environment}
        progress = RunBatchProgressManager(1, out / "exit_statuses.yaml")
        with contextlib.suppress(Exception):  # one that fails is recorded as failed
            process_instance(row, out, config, progress)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(Path(sys.argv[3]).read_text()))
