"""SWE-bench-Live: the Python set and MultiLang (``evaluation/evaluation.py`` of its repository).

Commands and parser need no hidden data. The Python set has no ``rebuild_cmds`` and ``print_cmds``,
and its parser is called ``pytest``; MultiLang has the source of a parser in each row.
"""

from __future__ import annotations

from dataclasses import replace

from swe_retry.instances.adapters.adapter import (
    REQUIRED,
    VISIBLE,
    Row,
    SetAdapter,
    columns,
    eval_image,
    lines,
    text,
)
from swe_retry.instances.instance import ImageLayout, Instance, TestSetup

_BUILT_IN = "pytest"


class Live(SetAdapter):
    name = "SWE-bench Live"
    marks = ("test_cmds", "rebuild_cmds", "print_cmds", "commit_urls log_parser")
    required = (*REQUIRED, "test_cmds")
    visible = VISIBLE | columns(
        "version docker_image log_parser parser rebuild_cmds test_cmds print_cmds"
    )

    def read(self, row: Row) -> Instance:
        parser = text(row, "log_parser") or text(row, "parser")
        log_parser = ""
        if parser.strip().lower() == _BUILT_IN:
            log_parser = "parse_log_pytest"
            parser = ""
        commands = " ; ".join(lines(row, "test_cmds"))
        image = text(row, "docker_image")
        return replace(
            self.common_fields(row),
            version=text(row, "version"),
            image=image or eval_image("starryzhang", row["instance_id"]),
            log_parser=log_parser,
            parser_source=parser,
            test_setup=TestSetup(
                setup=lines(row, "rebuild_cmds"),
                command=commands,
                show=lines(row, "print_cmds"),
            ),
            layout=ImageLayout(keeps_home=True, one_commit=True),
        )
