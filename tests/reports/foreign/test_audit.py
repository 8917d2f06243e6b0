"""The audit finds leaks that are planted in runs of every layout, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.instances.dataset import Dataset, load_dataset
from bench.repos.mirrors import Mirrors
from demo.setup import build_mirrors, commit_all
from reports.cli.options import ReportOptions
from reports.foreign.audit import Leak, LeakKind, audit, audit_command
from reports.foreign.recognise import read_any
from tests.support.foreign import LAYOUTS, NAME, Talk, Turn, mini, mini_text, sweagent_steps
from tests.support.task_sets import PRO

HINT = "The maintainer suggested to split the joined letters at blanks again."
ROW: dict[str, Any] = {
    **next(row for row in load_dataset("demo", "test").rows if row["instance_id"] == NAME),
    "hints_text": HINT,
}
GOLD = [line[1:] for line in ROW["patch"].splitlines() if line.startswith("+ ")]
INDEX = next(line for line in ROW["patch"].splitlines() if line.startswith("index "))
TESTS = "\n".join(line[1:] for line in ROW["test_patch"].splitlines() if line.startswith("+"))
BASE = ROW["base_commit"]
LOOK = Turn("I look.", "ls", "textkit")
WRITE = Turn("I reproduce it.", "cat > /tmp/t.py <<'EOF'\nprint(1)\nEOF", "")
SHOW = "commit 25e0bda\n    Fix it"


def ran(command: str, seen: str = "done", **more: str) -> Talk:
    return Talk((LOOK, Turn("I run it.", command, seen, **more)))


# (kind, talk): in the last observation or the last action, except where the prompt leaks.
LEAKS: list[tuple[LeakKind, Talk]] = [
    (LeakKind.GOLD, ran("cat /home/fix.patch", GOLD[0])),
    (LeakKind.GOLD, Talk((LOOK,), prompt=f"It should be:\n{GOLD[1]}")),
    (LeakKind.GOLD, ran("cat /solution/x.diff", INDEX)),
    (LeakKind.GOLD, Talk((LOOK, Turn("", "cat /fix", GOLD[0])), patch=ROW["patch"])),
    (LeakKind.GOLD, Talk((WRITE, Turn("", "cat /fix", "\n".join(GOLD))), patch=ROW["patch"])),
    (LeakKind.TESTS, ran("cat tests/test_slug.py", TESTS)),
    (LeakKind.TESTS, ran("pytest", "FAILED tests/test_slug.py::test_runs_become_one_dash")),
    (LeakKind.LISTS, Talk((LOOK,), prompt="Make the tests in FAIL_TO_PASS pass.")),
    (LeakKind.HINTS, Talk((LOOK,), prompt=f"Issue.\nHints: {HINT}")),
    (LeakKind.FUTURE, ran("git log --all --oneline", SHOW)),
    (LeakKind.FUTURE, ran("git show 25e0bda", SHOW)),
    (LeakKind.FUTURE, ran("git log -p origin/main -- textkit", SHOW)),
    (LeakKind.FUTURE, ran("cd /testbed && git -C . --no-pager log --branches", SHOW)),
    (LeakKind.FUTURE, ran("git reflog", SHOW)),
    (LeakKind.FUTURE, ran("git stash; git cherry-pick 1234abc0", SHOW)),
    (LeakKind.FUTURE, ran('bash -c "git log --all -p"', SHOW)),
    (LeakKind.FUTURE, Talk((LOOK, Turn("", "git diff HEAD 9fe1ab2", "")))),
    (LeakKind.NETWORK, ran("curl -s https://api.github.com/repos/demo/textkit/pulls/1")),
    (LeakKind.NETWORK, ran("python -m pip download --no-deps textkit==2.0")),
    (LeakKind.NETWORK, ran("git clone https://github.com/demo/textkit.git /tmp/x")),
    (LeakKind.NETWORK, ran("textkit slugify runs of dashes", tool="web_search", key="query")),
    (LeakKind.NETWORK, ran("sudo git fetch --unshallow")),
    (LeakKind.NETWORK, ran("gh pr list --state merged")),
]  # fmt: skip

INNOCENT = (
    Turn("", f"git log --oneline -3 && git show {BASE[:8]}", f"{BASE[:8]} Begin"),
    Turn("", "git log -3", "commit 77aa11b\n"),
    Turn("I see this one.", "git show 77aa11b --stat", "1 file changed"),
    Turn("", 'grep -rn "https://github.com/demo/textkit" docs', "docs/index.md"),
    Turn("", "git add --all && git commit -m 'as git log --all'", "[main 5f00baa] as"),
    Turn("", "git show 5f00baa", "commit 5f00baa"),
    Turn("", "pip install -e . requests", "Successfully installed"),
    Turn("", "cat > notes.txt <<'EOF'\ngit log --all\nEOF", ""),
    Turn(f"I write:\n{GOLD[0]}", "python edit.py", "written"),
    Turn("", "git diff", "\n".join([INDEX.replace("c64", "d64"), GOLD[0]])),
    Turn("", "cat textkit/slug.py", '    return "".join(letters)'),
    Turn("", 'sed -i \'s/letters)/letters).split())/; s/""/"-".join(""/\' textkit/slug.py', ""),
    Turn("", "cat textkit/slug.py", GOLD[1]),
)


@pytest.fixture(scope="module")
def mirrors(cache: Path) -> Mirrors:
    return Mirrors(build_mirrors(cache / "demo-mirrors"))


Find = Callable[[Path], Sequence[Leak]]


@pytest.fixture(scope="module")
def find(mirrors: Mirrors) -> Find:
    return lambda path: audit(read_any(path), "demo", {NAME: ROW}, mirrors).findings


@pytest.mark.parametrize("number", range(len(LEAKS)))
def test_each_planted_leak_is_found_with_its_place(number: int, find: Find, tmp_path: Path) -> None:
    kind, talk = LEAKS[number]
    # Agents that write commands as text have no other tools.
    tools = any(turn.tool != "bash" for turn in talk.turns)
    fitting = [one for one in LAYOUTS if not tools or one not in (mini_text, sweagent_steps)]
    for layout in (fitting[number % len(fitting)], fitting[(7 * number + 3) % len(fitting)]):
        folder = tmp_path / layout.__name__
        found = find(layout(talk, folder))
        assert [leak.kind for leak in found] == [kind], layout.__name__
        assert found[0].file.is_file()
        assert found[0].instance_id == NAME
        assert found[0].place
        assert found[0].text.strip()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_an_agent_may_do_is_no_leak(layout: Any, find: Find, tmp_path: Path) -> None:
    prompt = ROW["problem_statement"]
    assert find(layout(Talk(INNOCENT, prompt=prompt, patch=ROW["patch"]), tmp_path / "run")) == []


def test_places_name_the_step_in_the_file(find: Find, tmp_path: Path) -> None:
    talk = ran("git log --all", GOLD[0])
    places = {
        layout: [(leak.kind, leak.place) for leak in find(layout(talk, tmp_path / layout.__name__))]
        for layout in (mini, sweagent_steps)
    }
    assert places == {
        mini: [(LeakKind.GOLD, "messages[4]"), (LeakKind.FUTURE, "messages[3]")],
        sweagent_steps: [
            (LeakKind.GOLD, "trajectory[1].observation"),
            (LeakKind.FUTURE, "trajectory[1]"),
        ],
    }


def test_a_mirror_tells_which_commits_are_in_the_future(tmp_path: Path) -> None:
    mirror = tmp_path / "mirrors/demo__textkit.git"
    mirror.mkdir(parents=True)
    past, base, future = (commit_all(mirror, message) for message in ("One", "Two", "Three"))
    (mirror / ".git").rename(tmp_path / "git")
    mirror.rmdir()
    (tmp_path / "git").rename(mirror)
    row = {**ROW, "base_commit": base}
    # The agent has not seen the first one, and an image with later commits shows the last one.
    look = Turn("", "git log -1", f"commit {future}")
    talk = Talk((look, Turn("", f"git show {past}", ""), Turn("", f"git show {future[:9]}", "")))
    run = read_any(mini(talk, tmp_path / "run"))
    leaks = audit(run, "demo", {NAME: row}, Mirrors(tmp_path / "mirrors")).findings
    assert [(leak.kind, leak.text) for leak in leaks] == [
        (LeakKind.FUTURE, f"git show {future[:9]}")
    ]


def test_runs_of_others_use_the_own_ids_of_a_set(tmp_path: Path) -> None:
    row = {**PRO, "patch": ROW["patch"]}
    rows = Dataset("pro", "test", (row,)).by_any_id
    assert len(rows) == 2
    talk = replace(ran("cat /fix", GOLD[0]), name=row["instance_id"])
    found = audit(read_any(mini(talk, tmp_path / "run")), "pro", rows, None)
    assert found.audited == [row["instance_id"]]
    assert found.without_mirror == [row["repo"]]
    # Without a mirror, one of two lines is no evidence.
    assert found.findings == []
    talk = replace(ran("cat /fix", "\n".join(GOLD)), name=row["instance_id"])
    (leak,) = audit(read_any(mini(talk, tmp_path / "other")), "pro", rows, None).findings
    assert (leak.kind, leak.text, leak.more) == (LeakKind.GOLD, GOLD[0].strip(), 1)


def test_our_replayed_demo_has_no_leak(ours: Path, tmp_path: Path, cache: Path) -> None:
    said: list[str] = []
    assert audit_command(ours, ReportOptions(cache=cache), said.append) == 0
    assert "audited            6" in said
    # Without mirrors as well.
    assert audit_command(ours, ReportOptions(cache=tmp_path), said.append) == 0


def test_the_command_prints_findings_and_a_summary(tmp_path: Path, cache: Path) -> None:
    path = mini(ran("git log --all", "\x1b[31m<b>"), tmp_path / "run")
    said: list[str] = []
    assert audit_command(path, ReportOptions(dataset="demo", cache=cache), said.append) == 1
    assert said[0].endswith(f"{NAME}, attempt 1, messages[3]: future commits: 'git log --all'")
    assert said[-2:] == [
        "findings           1  in 1 instance",
        "                   1  future commits",
    ]
    options = ReportOptions(dataset="demo", cache=cache, as_json=True)
    said.clear()
    audit_command(path, options, said.append)
    assert json.loads(said[0])["counts"] == {"future commits": 1}
