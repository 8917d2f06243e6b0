"""Record which files of the project see given texts: ``python -m tests.support.valuetrace``.

Standard input: ``{"texts": {attribute: text}, "commands": [[script, argument…]…]}``.
Standard output's last line: for each attribute the files, in their order, in which the code
that ran names the attribute, or has a variable whose text contains the text.
"""

from __future__ import annotations

import json
import runpy
import sys
import threading
from collections.abc import Iterable
from types import FrameType
from typing import Any

from tests.support import TOP


def main() -> None:
    request = json.load(sys.stdin)
    files: dict[str, dict[str, None]] = {name: {} for name in request["texts"]}
    root = f"{TOP}/"

    def record(frame: FrameType, event: str, value: Any) -> None:
        path = frame.f_code.co_filename
        if not path.startswith(root) or event not in ("call", "return"):
            return
        # The documents name the files of the agent where they lie, not by the link.
        file = path.removeprefix(root).replace("swe_retry/agent/", "agent/")
        for attribute, text in request["texts"].items():
            is_named = attribute in frame.f_code.co_names
            if is_named or holds(text, [*frame.f_locals.values(), value]):
                files[attribute][file] = None

    for command in request["commands"]:
        sys.argv = command
        threading.setprofile(record)
        sys.setprofile(record)
        try:
            runpy.run_path(str(TOP / command[0]), run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    print(json.dumps({name: list(seen) for name, seen in files.items()}))


def holds(text: str, values: Iterable[object]) -> bool:
    return any(isinstance(value, str) and text in value for value in values)


if __name__ == "__main__":
    main()
