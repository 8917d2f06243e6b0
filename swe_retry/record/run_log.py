"""The logs of a run: one for the whole run, and one for each instance."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from swe_retry.core.plaintext import escape_invisible
from swe_retry.core.redaction import RedactingFormatter, Redactor

# The name of the run's own logger, in place of an instance's id.
_NO_INSTANCE = "-"


@contextmanager
def run_log(
    path: Path,
    redact: Redactor,
    level: int = logging.INFO,
) -> Iterator[logging.Logger]:
    """Yield the logger of a run, which appends to ``path``; safe to use from many threads.

    A record is one line ``time level instance message``, in UTC; its further lines are indented.
    """
    logger = logging.Logger(_NO_INSTANCE, level)
    with _written_to(
        logger,
        path,
        redact,
        "%(asctime)s %(levelname)s %(name)s %(message)s",
        level,
    ):
        yield logger


@contextmanager
def instance_log(
    path: Path,
    name: str,
    parent: logging.Logger,
    redact: Redactor,
) -> Iterator[logging.Logger]:
    """Yield a logger that writes to ``path`` while a worker works on the instance.

    Each record also reaches ``parent``, the run's logger, with the instance's name. The logger is
    not registered with ``logging``, so it leaves nothing behind.
    """
    logger = logging.Logger(name, min(logging.INFO, parent.level))
    logger.parent = parent
    with _written_to(
        logger,
        path,
        redact,
        "%(asctime)s %(levelname)s %(message)s",
        logging.INFO,
    ):
        yield logger


@contextmanager
def _written_to(
    logger: logging.Logger,
    path: Path,
    redact: Redactor,
    style: str,
    level: int,
) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size:
        with path.open("r+b") as stream:
            stream.seek(-1, 2)
            if stream.read(1) != b"\n":  # torn by a kill
                stream.write(b"\n")
    handler = _File(path, encoding="utf-8", errors="backslashreplace")
    handler.setLevel(level)
    handler.setFormatter(_OneRecordOneLine(redact, style))
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        with suppress(OSError):  # a full disk
            handler.close()


class _File(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Drop the record: logging would print it, with its secrets, over the display."""


class _OneRecordOneLine(RedactingFormatter):
    """Indents further lines, so that a message cannot pass for other records."""

    converter = time.gmtime  # type: ignore[assignment]  # the documented way
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return escape_invisible("\n    ".join(lines))
