"""The demo: ``python -m swe_retry.demo`` runs the harness on scripted replies, then the report."""

from __future__ import annotations

import shutil
import subprocess
import sys

from swe_retry.core.errors import InfrastructureError
from swe_retry.demo.images import build_images
from swe_retry.demo.setup import DEMO_DATASET
from swe_retry.environments.docker.engine import engine_answers
from swe_retry.environments.local.environment import NO_SANDBOX
from swe_retry.record.versions import CHECKOUT, TOP

_TOP = TOP.resolve()
_RUN = _TOP / "predictions" / "demo"


def main() -> int:
    """Run both commands and return the exit code of the first that fails."""
    print(
        "The replies of scripted-a and scripted-b are written by hand: no model is called.\n"
    )
    for folder in (_RUN, _TOP / "logs" / "demo"):
        shutil.rmtree(folder, ignore_errors=True)
    harness = [
        "harness",
        "--dataset",
        "demo",
        "--models",
        "scripted-a,scripted-b",
        "--replay",
        str(DEMO_DATASET / "replies"),
        "--environment",
        "local",
        "--run",
        "demo",
    ]
    report = ["report", str(_RUN), "--evaluator", _evaluator()]
    for name, *words in (harness, report):
        shown = f"python {name}.py" if CHECKOUT else f"retry-{name}"
        print(f"$ {shown} {' '.join(words)}", flush=True)
        code = _run(["-m", f"swe_retry.cli.{name}", *words], filtered=name == "report")
        if code:
            return code
        print(flush=True)
    print(f"Read what was said: {_RUN}/<instance_id>.md")
    print(f"Open the page of the run: {_RUN}/report/report.html")
    return 0


def _run(command: list[str], *, filtered: bool) -> int:
    """Run a command; ``filtered``: without the warning that the first one has printed."""
    words = [sys.executable, "-u", *command]
    if not filtered:
        return subprocess.run(words, cwd=_TOP, check=False).returncode
    with subprocess.Popen(
        words, cwd=_TOP, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if NO_SANDBOX not in line:
                print(line, end="", flush=True)
    return process.returncode


def _evaluator() -> str:
    """Return docker when an engine answers and the images can be built, else local."""
    if not engine_answers():
        return "local"
    try:
        build_images([path.name for path in sorted((DEMO_DATASET / "tasks").iterdir())])
    except InfrastructureError as error:
        print(f"note: {error}; evaluating locally\n")
        return "local"
    return "docker"


if __name__ == "__main__":
    sys.exit(main())
