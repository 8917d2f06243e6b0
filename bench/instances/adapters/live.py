"""SWE-bench-Live: the Python set and MultiLang (``evaluation/evaluation.py`` of its repository).

Commands and parser need no hidden data. The Python set has no ``rebuild_cmds`` and ``print_cmds``,
and its parser is called ``pytest``; MultiLang has the source of a parser in each row.
"""

from __future__ import annotations

from bench.instances.adapters.base import (
    Row,
    SetAdapter,
    columns,
    date_of,
    eval_image,
    lines,
    marks,
    text,
)
from bench.instances.shape import ImagePlace, Instance, TestSetup

_PLACE = ImagePlace(keeps_home=True, one_commit=True)
_BUILT_IN = "pytest"


def _read(row: Row) -> Instance:
    name = row["instance_id"]
    parser = text(row, "log_parser") or text(row, "parser")
    built_in = parser.strip().lower() == _BUILT_IN
    commands = " ; ".join(lines(row, "test_cmds"))
    return Instance(
        instance_id=name,
        repo=row["repo"],
        base_commit=row["base_commit"],
        problem_statement=row["problem_statement"],
        version=text(row, "version"),
        image=text(row, "docker_image") or eval_image("starryzhang", name),
        log_parser="parse_log_pytest" if built_in else "",
        parser_source="" if built_in else parser,
        test_setup=TestSetup(lines(row, "rebuild_cmds"), commands, lines(row, "print_cmds")),
        place=_PLACE,
        language="python" if built_in else text(row, "language").lower(),
        created_at=date_of(row.get("created_at")),
    )


LIVE = SetAdapter(
    name="SWE-bench Live",
    marks=marks("test_cmds", "rebuild_cmds", "print_cmds", "commit_urls log_parser"),
    required=("instance_id", "repo", "base_commit", "problem_statement", "test_cmds"),
    visible=columns(
        "instance_id repo base_commit problem_statement version docker_image log_parser parser "
        "rebuild_cmds test_cmds print_cmds language created_at"
    ),
    read=_read,
)
