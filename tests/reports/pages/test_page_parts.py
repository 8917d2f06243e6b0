"""Parts of pages: harmless Markdown of issues, diffs, and one format per column."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from core.redaction import Redactor
from environments.base import EnvironmentKind
from reports.command_line import report_command
from reports.pages.render import Renderer, highlighted, rendered_issue
from tests.reports.test_verify import ONE, SIX
from tests.support import runs
from tests.support.evaluated import report_settings
from tests.support.pages import ATTACK


def html(text: str) -> str:
    found = rendered_issue(text)
    assert found is not None
    return str(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Some *words* and `code`.",
            "<p>Some <em>words</em> and <code>code</code>.</p>",
        ),
        ("# Big\n\n###### Small", "<h3>Big</h3><h6>Small</h6>"),
        (
            "```python\na < b\n```",
            '<pre><code class="language-python">a &lt; b\n</code></pre>',
        ),
        ("| a | b |\n| - | - |\n| 1 | 2 |", "<td>1</td>"),
        (
            "[here](http://x.org/a)",
            'here <span class="address">(http://x.org/a)</span>',
        ),
        ("<http://x.org/>", "<p>http://x.org/</p>"),
    ],
)
def test_issues_are_rendered_as_markdown(text: str, expected: str) -> None:
    assert expected in html(text)


@pytest.mark.parametrize(
    "text",
    [
        ATTACK,
        "[x](javascript:alert(1))",
        "[x](data:text/html,<script>1</script>)",
        "![x](http://x.org/tracker.png)",
        "<img src=x onerror=alert(1)>",
        "[x](//evil.org/ \"onmouseover='1'\")",
        "`<script>`\n\n    <script>\n",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
    ],
)
def test_nothing_in_an_issue_becomes_an_element_that_acts(text: str) -> None:
    elements = {name.lower() for name in re.findall(r"<(\w+)", html(text))}
    assert elements <= {"p", "em", "strong", "code", "pre", "span", "h3", "blockquote"}
    assert not re.search(r"<[^>]*\s(on\w+|href|src)=", html(text))


def test_long_and_swelling_issues_stay_plain() -> None:
    assert rendered_issue("x" * 60_000) is None
    assert (
        rendered_issue("|a" * 200 + "\n" + "|-" * 200 + "\n" + "|\n" * 10_000) is None
    )


def test_a_secret_that_markdown_puts_together_is_redacted() -> None:
    redact = Redactor({"API_KEY": "sk-abcdefgh"})
    assert "sk-abcdefgh" not in str(Renderer(redact)._issue("sk-abc&#100;efgh"))


def test_headers_of_a_diff_are_no_changes() -> None:
    patch = (
        "diff --git a/q.sql b/q.sql\n--- a/q.sql\n+++ b/q.sql\n@@ -1,3 +1,2 @@\n select 1\n"
        "--- a comment that goes\n-select <2>\n+++ x\n\\ No newline at end of file\n"
    )
    marked = str(highlighted(patch))
    styles = dict(re.findall(r'<span class="(\w+)">([^\n]*)</span>', marked)[::-1])
    removed = re.findall(r'<span class="gd">([^\n]*)</span>', marked)
    assert removed == ["--- a comment that goes", "-select &lt;2&gt;"]
    assert re.findall(r'<span class="gi">([^\n]*)</span>', marked) == ["+++ x"]
    assert "gi" in styles and "\n--- a/q.sql\n+++ b/q.sql\n" in marked
    assert (
        re.sub("<[^>]+>", "", marked).replace("&lt;", "<").replace("&gt;", ">") == patch
    )


def test_attempts_are_headed_by_their_outcome_and_costs_have_one_format(
    tmp_path: Path, cache: Path
) -> None:
    config = runs.config(environment=EnvironmentKind.NONE)
    run_command(config, runs.options(tmp_path, cache, ONE, SIX), lambda _: None)
    folder = tmp_path / "predictions/r"
    for path, costs in ((ONE, [4.71]), (SIX, [0.1683, 0.0004, 1, 0, 0, 0])):
        data: dict[str, Any] = json.loads((folder / f"{path}.json").read_text())
        for result, cost in zip(data["all_results"], costs, strict=False):
            result["cost"] = cost
        data["cost"] = costs[0]
        (folder / f"{path}.json").write_text(json.dumps(data))
    (folder / "ledger.jsonl").unlink()
    report_command([folder], report_settings(cache, page=True), lambda _: None)
    page = (folder / "report/instances" / f"{SIX}.html").read_text()
    summaries = re.findall(r"<summary>(Attempt .*?)</summary>", page)
    plain = [re.sub("<[^>]+>", "", summary) for summary in summaries]
    assert (
        plain[0]
        == "Attempt 1 · scripted-a, try 1 · ✗ edit failed · ✗ not resolved · $0.1683"
    )
    assert plain[1] == "Attempt 2 · scripted-b, try 1 · ✗ lint failed · $0.0004"
    assert plain[-1].endswith("★ chosen")
    overview = (folder / "report/report.html").read_text()
    assert "$4.7100" in overview and "$0.1683" in overview
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', overview)
    table = heads[heads.index("attempt") : heads.index("attempt") + 8]
    assert len(set(table)) == len(table), "no two columns of one name"
