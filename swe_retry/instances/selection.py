"""Which instances of a dataset a run works on: the options, and the choice."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator

from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import did_you_mean
from swe_retry.core.settings import Commas, Section
from swe_retry.record.places import NamedRun
from swe_retry.repositories.names import ALIASES, BUNDLED

if TYPE_CHECKING:  # the help of commands needs the settings alone
    from swe_retry.instances.instance import Instance

_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?")


def check_date(name: str, value: str) -> None:
    """Check a day or a month that the option ``name`` gives; empty is right."""
    if value and not _DATE.fullmatch(value):
        raise UserError(f"{name} {value!r} is not a date: give YYYY-MM-DD or YYYY-MM")


def in_period(day: str, since: str, until: str) -> bool:
    """Return whether a day lies in a period of days, months or empty ends."""
    # A month stands for all of its days.
    if since and day[: len(since)] < since:
        return False
    return not until or day[: len(until)] <= until


def read_ids(text: str, option: str = "--instances") -> tuple[str, ...]:
    """Return the ids of a comma list, or of ``@file``: one or more a line, ``#`` for comments.

    ``option`` names the list in messages.
    """
    if text.startswith("@"):
        path = Path(text[1:]).expanduser()
        try:
            content = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{option} {text} cannot be read: {error}") from error
        lines = [line.partition("#")[0] for line in content.splitlines()]
        text = "\n".join(lines)
    return tuple(filter(None, re.split(r"[\s,]+", text)))


def _absolute_dataset(name: str) -> str:
    path = Path(name).expanduser()
    if name in (*ALIASES, *BUNDLED) or not path.exists():
        return name
    return str(path.resolve())


def _absolute_file(name: str) -> str:
    if name.startswith("@"):
        return f"@{Path(name[1:]).expanduser().resolve()}"
    return name


class Instances(Section):
    """Which instances of which data set."""

    dataset: Annotated[str, AfterValidator(_absolute_dataset)] = "lite"
    """Take instances of this data set: lite, verified, pro, live, demo, a hub id, a
    file or a folder."""

    config: str = ""
    """Take this configuration of a data set that has several."""

    split: str = "test"
    """Take this split of the data set."""

    ids: Annotated[
        tuple[Annotated[str, AfterValidator(_absolute_file)], ...], Commas
    ] = ()
    """Take these instances: ids, or @FILE."""

    filter: str = ""
    """Take those whose ids match this regular expression."""

    slice: str = ""
    """Take this part of the list, as 0:10."""

    shuffle: int | None = None
    """Shuffle the list; this seed decides the order."""

    since: str = ""
    """Take instances created on this day or later: YYYY-MM[-DD]."""

    until: str = ""
    """Take instances created on this day or earlier."""

    prior: Annotated[tuple[NamedRun, ...], Commas] = ()
    """Skip what these earlier runs have a plausible patch for."""

    only_valid: Path | None = None
    """Leave out what this file of `report.py gold` does not call valid."""

    def select(self, instances: Sequence[Instance]) -> tuple[Instance, ...]:
        """Return the selected instances: ids, then pattern, then order, then slice."""
        ids: list[str] = []
        for name in self.ids:
            ids.extend(read_ids(name))
        by_id = {instance.instance_id: instance for instance in instances}
        missing = [name for name in ids if name not in by_id]
        if missing:
            raise UserError(
                f"not in the dataset: {', '.join(missing)}; check --instances"
                + did_you_mean(missing[0], by_id)
            )
        chosen = list(dict.fromkeys(ids or by_id))
        chosen = narrow(chosen, "instance", self.filter, self.slice, self.shuffle)
        return tuple(by_id[name] for name in chosen)


def narrow(
    ids: Sequence[str], noun: str, pattern: str, part: str, seed: int | None
) -> list[str]:
    """Return the ids that fit a pattern, shuffled unless ``seed`` is None, in a slice of these.

    Args:
        noun: what the ids are of, for messages.
        part: the slice, as ``a:b``.
    """
    try:
        chosen = [name for name in ids if re.search(pattern, name)]
    except re.error as error:
        raise UserError(
            f"--filter {pattern!r} is not a regular expression: {error}"
        ) from error
    if seed is not None:
        random.Random(seed).shuffle(chosen)
    if not chosen:
        raise UserError(f"--filter {pattern!r} selects no {noun}; check it")
    chosen = chosen[_slice(part)]
    if not chosen:
        raise UserError(f"--slice {part!r} selects no {noun}; check it")
    return chosen


def created_between(
    instances: Sequence[Instance], since: str, until: str
) -> tuple[Instance, ...]:
    """Return the instances created from ``since`` to ``until``: days, months, or empty for any."""
    check_date("instances.since", since)
    check_date("instances.until", until)
    if not (since or until):
        return tuple(instances)
    chosen: list[Instance] = []
    undated: list[str] = []
    for instance in instances:
        if not instance.created_at:
            undated.append(instance.instance_id)
        elif in_period(instance.created_at, since, until):
            chosen.append(instance)
    if undated:
        raise UserError(
            f"instances.since and instances.until need `created_at`, which {len(undated)} rows "
            f"lack, as that of {undated[0]}; leave them out"
        )
    if not chosen:
        raise UserError(
            f"no instance was created from {since or '…'} to {until or '…'}"
        )
    return tuple(chosen)


def _slice(text: str) -> slice:
    match = re.fullmatch(r"(-?\d+)?:(-?\d+)?", text or ":")
    if not match:
        raise UserError(f"--slice {text!r} is not of the form a:b")
    ends = [int(part) if part else None for part in match.groups()]
    return slice(*ends)
