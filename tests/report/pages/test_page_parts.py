"""Parts of pages: harmless Markdown of issues, diffs, and one format per column."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import unescape
from pathlib import Path

import pytest

from swe_retry.llm.chat import Message
from tests.support import read_json, text_between, write_json
from tests.support.evaluated import TEXTKIT, UNITS
from tests.support.pages import ATTACK, make_pages
from tests.support.reported import replay
from tests.support.reporting import write_values
from tests.support.rundata import an_attempt, an_instance

Issues = Callable[[Sequence[str]], list[str]]


@pytest.fixture
def issues(tmp_path: Path) -> Issues:
    """Return the issues of as many pages as HTML; each has ``title`` as its title."""

    def make(texts: Sequence[str]) -> list[str]:
        instances = []
        for number, text in enumerate(texts, 100):
            opening = Message("user", f"Map\n<issue>\ntitle\n{text}\n</issue>\n")
            attempt = an_attempt(messages=(opening,))
            instance = an_instance(
                f"a__a-{number}",
                attempts=(attempt,),
                resolved=None,
            )
            instances.append(instance)
        report = make_pages(write_values(tmp_path / "r", *instances))
        folder = report.parent / "instances"
        pages_html = []
        for page in sorted(folder.iterdir()):
            issue = text_between(
                page.read_text(),
                '<h2 id="issue">Issue</h2>\n',
                "\n<h2>Attempts</h2>",
            )
            pages_html.append(issue)
        return pages_html

    return make


RENDERED = (
    ("Some *words* and `code`.", "<p>Some <em>words</em> and <code>code</code>.</p>"),
    ("# Big\n\n###### Small", "<h3>Big</h3><h6>Small</h6>"),
    (
        "```python\na < b\n```",
        '<pre><code class="language-python">a &lt; b\n</code></pre>',
    ),
    ("| a | b |\n| - | - |\n| 1 | 2 |", "<td>1</td>"),
    ("[here](http://x.org/a)", 'here <span class="address">(http://x.org/a)</span>'),
    ("<http://x.org/>", "<p>http://x.org/</p>"),
    ("~~no~~", "<p><s>no</s></p>"),
)


def test_issues_are_rendered_as_markdown(issues: Issues) -> None:
    issues_html = issues([text for text, _ in RENDERED])
    for html, (_, expected) in zip(issues_html, RENDERED, strict=True):
        assert html.startswith('<p><strong>title</strong></p><div class="issue">')
        assert expected in html


ATTACKS = (
    ATTACK,
    "[x](javascript:alert(1))",
    "[x](data:text/html,<script>1</script>)",
    "![x](http://x.org/tracker.png)",
    "<img src=x onerror=alert(1)>",
    "[x](//evil.org/ \"onmouseover='1'\")",
    "`<script>`\n\n    <script>\n",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
)


def test_nothing_in_an_issue_becomes_an_element_that_acts(issues: Issues) -> None:
    allowed = {"p", "em", "strong", "code", "pre", "span", "h3", "blockquote", "div"}
    for html in issues(ATTACKS):
        assert html
        elements = set(re.findall(r"<(\w+)", html.lower()))
        assert elements <= allowed
        assert not re.search(r"<[^>]*\s(on\w+|href|src)=", html)


def test_long_and_swelling_issues_stay_plain(issues: Issues) -> None:
    head = "|a" * 200
    line = "|-" * 200
    rows = "|\n" * 100
    for html in issues(["x" * 60_000, f"{head}\n{line}\n{rows}"]):
        assert html.lstrip().startswith('<pre class="wrap" tabindex="0">title\n')
        assert "<table>" not in html


def test_a_secret_that_markdown_puts_together_is_redacted(
    issues: Issues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sk-abcdefgh")
    [html] = issues(["It is sk-abc&#100;efgh or so."])
    assert "<p>It is [API_KEY] or so.</p>" in html


def patch_of(folder: Path, patch: str) -> str:
    """Return the patch of an attempt as its page has it."""
    attempt = an_attempt(model_patch=patch)
    instance = an_instance(
        "a__a-1",
        attempts=(attempt,),
        model_patch=patch,
        resolved=None,
    )
    report = make_pages(write_values(folder / "r", instance))
    page = (report.parent / "instances/a__a-1.html").read_text()
    match = re.search(r"<h3>Patch</h3>\n\n?<pre tabindex=\"0\">(.*?)</pre>", page, re.S)
    assert match
    return match[1]


def test_headers_of_a_diff_are_no_changes(tmp_path: Path) -> None:
    patch = (
        "diff --git a/q.sql b/q.sql\n--- a/q.sql\n+++ b/q.sql\n@@ -1,3 +1,2 @@\n select 1\n"
        "--- a comment that goes\n-select <2>\n+++ x\n\\ No newline at end of file\n"
    )
    marked = patch_of(tmp_path, patch)
    headings = re.findall(r'<span class="gu">([^\n]*)</span>', marked)
    assert headings == ["diff --git a/q.sql b/q.sql", "@@ -1,3 +1,2 @@"]
    removed = re.findall(r'<span class="gd">([^\n]*)</span>', marked)
    assert removed == ["--- a comment that goes", "-select &lt;2&gt;"]
    assert re.findall(r'<span class="gi">([^\n]*)</span>', marked) == ["+++ x"]
    assert "\n--- a/q.sql\n+++ b/q.sql\n" in marked
    assert unescape(re.sub("<[^>]+>", "", marked)) == patch


def test_texts_that_are_no_diff_are_escaped(tmp_path: Path) -> None:
    assert patch_of(tmp_path, "<b>" * 200_000).startswith("&lt;b&gt;&lt;b&gt;")


def test_attempts_are_headed_by_their_outcome_and_costs_have_one_format(
    tmp_path: Path, cache: Path
) -> None:
    folder = replay(tmp_path, cache, TEXTKIT, UNITS)
    set_costs(folder / f"{TEXTKIT}.json", 4.71)
    costs = (0.1683, 0.0004, 1, 0, 0, 0)
    set_costs(folder / f"{UNITS}.json", *costs)
    (folder / "ledger.jsonl").unlink()
    make_pages(folder)
    page = (folder / f"report/instances/{UNITS}.html").read_text()
    summaries = re.findall(r"<summary>(Attempt .*?)</summary>", page)
    plain = [re.sub("<[^>]+>", "", summary) for summary in summaries]
    outcome = "scripted-a, try 1 · ✗ edit failed · ✗ not resolved · $0.1683"
    assert plain[0] == f"Attempt 1 · {outcome}"
    assert plain[1] == "Attempt 2 · scripted-b, try 1 · ✗ lint failed · $0.0004"
    assert plain[-1].endswith("★ chosen")
    overview = (folder / "report/report.html").read_text()
    assert "$4.7100" in overview
    assert "$0.1683" in overview
    heads = re.findall(r'<th scope="col"[^>]*>([^<]+)</th>', overview)
    start = heads.index("attempt")
    table = heads[start : start + 8]
    assert len(set(table)) == len(table), "no two columns of one name"


def set_costs(path: Path, *costs: float) -> None:
    """Set the costs of a prediction's attempts, and its own to that of the first."""
    data = read_json(path)
    for result, cost in zip(data["all_results"], costs, strict=False):
        result["cost"] = cost
    data["cost"] = costs[0]
    write_json(path, data)
