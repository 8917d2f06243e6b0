"""One exercise by ``run_test`` of aider's own benchmark, for ``benchmarks.local_model``.

``benchmarks.local_model`` starts this file with the Python of aider, which has none of our
packages. The argument is JSON: the folder of the benchmark, those of the exercise, the model, the
edit format, tries, the seconds of a call, and the file that receives the row.

Outcomes and malformed replies are those of the benchmark's result. Tokens are counted at
``litellm.completion``, as the server reports them, because aider's own totals leave out the calls
that summarize its history.
"""

from __future__ import annotations

import atexit
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

# Only the statistics of the benchmark need them.
_NOT_NEEDED = ("lox", "pandas", "plots")
_MAX_ERROR = 300


class CountedCalls:
    """Replaces ``litellm.completion``, and notes each call."""

    def __init__(self, litellm: Any, summary_prompt: str) -> None:  # noqa: ANN401
        self.calls: list[dict[str, Any]] = []
        self._complete = litellm.completion
        self._summary_prompt = summary_prompt
        litellm.completion = self

    def __call__(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        first = options["messages"][0]
        started = time.monotonic()
        call: dict[str, Any] = {"summary": first["content"] == self._summary_prompt}
        self.calls.append(call)
        try:
            answer = self._complete(*args, **options)
        except Exception as error:
            call["error"] = f"{type(error).__name__}: {error}"[:_MAX_ERROR]
            raise
        finally:
            call["seconds"] = round(time.monotonic() - started, 3)
        call["prompt_tokens"] = answer.usage.prompt_tokens
        call["completion_tokens"] = answer.usage.completion_tokens
        return answer


def main() -> None:
    order = json.loads(sys.argv[1])
    for name in _NOT_NEEDED:
        sys.modules[name] = ModuleType(name)
    sys.modules["plots"].plot_refactoring = None  # type: ignore[attr-defined]
    sys.path.insert(0, order["benchmark"])
    benchmark = import_module("benchmark")
    models: Any = import_module("aider.models")
    models.request_timeout = order["call_seconds"]
    counted = CountedCalls(
        import_module("litellm"), import_module("aider.prompts").summarize
    )
    row: dict[str, Any] = {"calls": counted.calls}
    # Summaries are written by threads, for which Python waits before this.
    atexit.register(lambda: Path(order["row"]).write_text(json.dumps(row)))
    result = benchmark.run_test(
        Path(order["pristine"]),
        Path(order["folder"]),
        f"openai/{order['model']}",
        order["edit_format"],
        order["tries"],
        no_unit_tests=False,
        no_aider=False,
        verbose=False,
        commit_hash="",
        replay="",
        editor_model=None,
        editor_edit_format=None,
    )
    if result is None:
        path = Path(order["folder"]) / ".aider.results.json"
        row["error"] = json.loads(path.read_text())["exception"]
        return
    row["outcomes"] = result["tests_outcomes"]
    row["malformed"] = result["num_malformed_responses"]


if __name__ == "__main__":
    main()
