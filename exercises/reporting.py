"""What the reports of benchmarks write alike: CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from io import StringIO

CHART = "--chart"


def csv_text(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    stream = StringIO()
    csv.writer(stream, lineterminator="\n").writerows([headings, *rows])
    return stream.getvalue()
