"""Score evaluated completions: ``python -m exercises.canitedit report DIR…``."""

from __future__ import annotations

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from core.errors import UserError
from core.options import built, command, option, option_group
from exercises.canitedit.published import ProblemSelection
from exercises.canitedit.reporting.figures import GroupBy
from exercises.canitedit.reporting.folder import model_folders_in, read_folder
from exercises.canitedit.reporting.plot import write_plot
from exercises.canitedit.reporting.report import EditingReport, editing_report
from exercises.canitedit.reporting.tables import report_csv, report_json, report_lines
from reports.cli.options import csv_option, json_option, partial_option

_MOST_K = 1000


def _parse_ks(name: str, text: str, _: object) -> tuple[int, ...]:
    try:
        found = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        found = ()
    if not found or not all(1 <= k <= _MOST_K for k in found):
        raise UserError(f"{name} {text}: give numbers from 1 to {_MOST_K:,}, as 1,5,10")
    return found


def _parse_groups(name: str, text: str, _: object) -> tuple[GroupBy, ...]:
    try:
        return tuple(dict.fromkeys(GroupBy(part.strip()) for part in text.split(",")))
    except ValueError:
        known = ", ".join(one.value for one in GroupBy)
        raise UserError(f"{name} {text}: choose among {known}") from None


class OutputForm(str, Enum):
    """What is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    CSV = "csv"
    JSON = "json"


@option_group
class ReportRequest:
    """What is reported, and how."""

    folders: tuple[Path, ...] = option(
        (),
        "Folders with files *.results.json.gz, one for each model, or runs of generate.",
        "folders",
        argument=True,
    )
    k: tuple[int, ...] = option(
        (1, 5, 10), "Of pass@k.", "--k", given=str, shown="1,5,10", read=_parse_ks
    )
    by: tuple[GroupBy, ...] = option(
        (),
        "GroupFigures by group as well: change_kind, topic, libraries, length.",
        "--by",
        given=str,
        read=_parse_groups,
    )
    allow_partial: bool = partial_option("Report incomplete and mixed folders, and say so.")
    as_json: bool = json_option("Print the report as JSON alone.")
    as_csv: bool = csv_option("Print the figures as CSV alone.")
    markdown: bool = option(
        False, "Print tables in Markdown, the first paper's Table 3 first.", "--markdown"
    )
    plot: Path | None = option(None, "Write a picture of pass@1: .svg or .png.", "--plot")

    @property
    def form(self) -> OutputForm:
        """What is printed."""
        asked = {
            OutputForm.JSON: self.as_json,
            OutputForm.CSV: self.as_csv,
            OutputForm.MARKDOWN: self.markdown,
        }
        given = [form for form, wanted in asked.items() if wanted]
        if len(given) > 1:
            names = " and ".join(f"--{form.value}" for form in given)
            raise UserError(f"{names} cannot be given together; choose one")
        return given[0] if given else OutputForm.TEXT


@command(ReportRequest, ProblemSelection)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Report pass@k, ExcessCode and more of evaluated completions; execute nothing."""
    request, selection = built(ReportRequest, values), built(ProblemSelection, values)
    form = request.form
    if not request.folders:
        raise UserError("no folder given; usage: python -m exercises.canitedit report DIR…")
    given = [place for folder in request.folders for place in model_folders_in(folder)]
    if len({folder.resolve() for folder in given}) < len(given):
        raise UserError("a folder is given twice; leave one of them out")
    partial = request.allow_partial
    folders = [read_folder(f, v1=selection.v1, allow_partial=partial) for f in given]
    report = editing_report(folders, request.k, request.by)
    if request.plot is not None:
        for path in write_plot(report, request.plot):
            print(f"wrote {path}", file=sys.stderr)
    print(printed(report, form))


def printed(report: EditingReport, form: OutputForm) -> str:
    """Return a report as it is printed."""
    if form is OutputForm.JSON:
        return json.dumps(report_json(report), indent=1, ensure_ascii=False)
    if form is OutputForm.CSV:
        return report_csv(report).removesuffix("\n")
    lines = report_lines(report, markdown=form is OutputForm.MARKDOWN)
    return "\n".join(lines).strip("\n")
