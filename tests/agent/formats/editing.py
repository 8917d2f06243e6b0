"""Helpers for tests of edit formats: apply a reply to texts by path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.formats import get_format
from agent.formats.base import ApplyReport, Edit, ReplyScope
from agent.formats.reading.fences import writes_markers
from llm.chat import Reply

FENCE = "```"


def parse(
    form: str, reply: str | Reply, known: Sequence[str] = (), chat: Sequence[str] = ()
) -> Sequence[Edit]:
    whole = Reply(reply) if isinstance(reply, str) else reply
    return get_format(form).parse(whole, ReplyScope(frozenset(known), chat))


def apply(
    form: str, reply: str | Reply, files: Mapping[str, str], chat: Sequence[str] = ()
) -> ApplyReport:
    edits = parse(form, reply, tuple(files), chat)
    return get_format(form).apply(edits, files.get, chat)


def block(name: str, search: str, replace: str, info: str = "python") -> str:
    body = f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE"
    return f"{name}\n{FENCE}{info}\n{body}\n{FENCE}\n"


def problem(report: ApplyReport) -> str:
    (failed,) = report.failed
    return failed.problem


def can_say(form: str, after: Sequence[str]) -> bool:
    """Return whether ``form`` can write ``after``: whole texts hold no dots, markers or edits."""
    if form not in ("whole", "whole-func", "diff-func"):
        return True
    first = next((line for line in after if line.strip()), "")
    edit = first.startswith(("diff ", "--- ", "*** ", "@@ ")) or "..." in after
    return not edit and not writes_markers(after, ())
