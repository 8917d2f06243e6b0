"""Report from where a test runner imports packages. This runs in the runner's process.

Python loads it as ``sitecustomize`` (see ``bench.regression.proof``); it must work in Python 3.6.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any


class Watch:
    """Looks for a marker in the file of each package in ``names`` at its first import.

    It writes one line per package: the marker, ``yes`` or ``no``, the package, its file. After
    the last one it ends the process, because the tests need not run.
    """

    def __init__(self, names: Iterable[str], marker: str, descriptor: int) -> None:
        self.names = set(names)
        self.marker = marker
        self.descriptor = descriptor

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # noqa: ANN401
        """Return the spec that the other finders return."""
        if name not in self.names:
            return None
        for finder in [f for f in sys.meta_path if f is not self]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                self._report(name, spec.origin or "")
                return spec
        return None

    def _report(self, name: str, origin: str) -> None:
        self.names.discard(name)
        answer = "yes" if self._marked(origin) else "no"
        line = f"\n{self.marker} {answer} {name} {origin}\n"
        os.write(self.descriptor, line.encode("utf-8", "replace"))
        if not self.names:
            os._exit(0)

    def _marked(self, origin: str) -> bool:
        try:
            with open(origin, "rb") as stream:  # noqa: PTH123 - as small as can be
                return self.marker.encode() in stream.read()
        except OSError:
            return False


def watch(names: Iterable[str], marker: str) -> None:
    """Watch the imports of this process; duplicate stdout before the runner redirects it."""
    sys.meta_path.insert(0, Watch(names, marker, os.dup(1)))
