"""Commands as agents: their input, their processes, and the costs that they report."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from swe_retry.agent.agents import load_agent
from swe_retry.agent.agentsettings import AgentSettings
from swe_retry.agent.builtin import BuiltinAgent
from swe_retry.agent.command_agent import CommandAgent, read_spent
from swe_retry.agent.conversation.result import Ending
from swe_retry.agent.mentions import FileIndex
from swe_retry.agent.protocol import AgentResult, Task
from swe_retry.agent.surroundings import Transcript
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.llm.chat import Usage
from swe_retry.llm.replay import ReplayModel

MESSAGE = 'It is "broken"; $(rm -rf /)\nsecond line \u00e9 {model}'


def a_task(root: Path, log: Callable[[str], None] = lambda _: None) -> Task:
    return Task(
        root=root,
        message=MESSAGE,
        files=FileIndex(()),
        model=ReplayModel(()),
        model_name="vendor/model name",
        edit_format="agent",
        temperature=0.4,
        transcript=Transcript(),
        log=log,
    )


def python(code: str, *arguments: str) -> str:
    return shlex.join([sys.executable, "-c", code, *arguments])


def run(
    root: Path,
    template: str,
    seconds: float = 20,
    *names: str,
) -> tuple[AgentResult, Task]:
    task = a_task(root)
    settings = AgentSettings(env=names, timeout=seconds)
    agent = load_agent(f"command:{template}", settings)
    return agent.work(task), task


def output(task: Task) -> str:
    return task.transcript.messages[-1].content


BEATING = "import time\nwhile True:\n open('beat', 'a').write('.'); time.sleep(0.05)"


def heartbeats(root: Path) -> tuple[int, int]:
    """Return how often the children of a command wrote, now and later."""
    beat = root / "beat"
    size = beat.stat().st_size
    time.sleep(0.5)
    return size, beat.stat().st_size


def test_the_placeholders_are_filled_as_whole_words(tmp_path: Path) -> None:
    code = "import sys, json, os; print(json.dumps([open(sys.argv[1]).read(), sys.argv[2:]]))"
    arguments = (
        "{message_file}",
        "--model={model}",
        "{temperature}",
        "{{other}}",
        "{result_file}",
    )
    work, task = run(tmp_path, python(code, *arguments))
    assert work == AgentResult()
    message, (*values, result_file) = json.loads(output(task))
    assert message == MESSAGE
    assert values == ["--model=vendor/model name", "0.4", "{other}"]
    assert not Path(result_file).is_relative_to(tmp_path)
    assert list(tmp_path.iterdir()) == [], "nothing of ours lies in the checkout"
    assert not Path(result_file).parent.exists(), "and nothing is left elsewhere"


def test_it_runs_in_the_checkout_and_no_shell_reads_the_template(
    tmp_path: Path,
) -> None:
    code = "import os, sys; print(os.getcwd(), sys.argv[1])"
    _, task = run(tmp_path, python(code, "$HOME;ls"))
    assert output(task).split() == [str(tmp_path), "$HOME;ls"]
    _, task = run(tmp_path, "sh -c 'echo $((1 + 1)); cat \"$0\"' {message_file}")
    assert output(task) == f"2\n{MESSAGE}"


def test_only_named_variables_reach_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "mine")
    monkeypatch.setenv("OTHER_API_KEY", "not yours")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    _, task = run(tmp_path, python(code), 20, "MY_API_KEY")
    seen = json.loads(output(task))
    marks = {"SWE_RETRY_HARNESS_PROCESS", "SWE_RETRY_HARNESS_RUN"}
    ours = {"PATH", "HOME", "TMPDIR", "LANG", "MY_API_KEY", *marks}
    assert set(seen) - {"LC_CTYPE"} == ours
    assert seen["MY_API_KEY"] == "mine"
    assert seen["HOME"] != os.environ["HOME"]
    assert not Path(seen["HOME"]).exists(), "it was a fresh one, and it is gone"


def test_secrets_that_it_prints_are_redacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-abcdefgh")
    log: list[str] = []
    template = python("import os; print('key:', os.environ['MY_API_KEY'])")
    agent = load_agent(
        f"command:{template}", AgentSettings(env=("MY_API_KEY",), timeout=20)
    )
    task = a_task(tmp_path, log.append)
    agent.work(task)
    assert output(task) == "key: [MY_API_KEY]\n"
    assert "sk-abcdefgh" not in repr((agent, log, task.transcript))


def test_exit_codes_are_recorded(tmp_path: Path) -> None:
    work, task = run(tmp_path, python("print('so far'); raise SystemExit(3)"))
    assert work == AgentResult(
        None, "the agent ended with exit code 3: so far", Ending.FAILED
    )
    assert output(task) == "so far\n"
    (call,) = task.transcript.calls
    assert (call.cost, call.model) == (None, "vendor/model name")


def test_time_is_up_for_it_and_all_that_it_started(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        f"for new in (True, False): subprocess.Popen([sys.executable, '-c', {BEATING!r}],"
        " start_new_session=new)\n"
        "print('started', flush=True); time.sleep(60)"
    )
    work, task = run(tmp_path, python(code), 2)
    assert work.error == "the agent was stopped after 2 s: started"
    assert output(task) == "started\n"
    now, later = heartbeats(tmp_path)
    assert now, "the children were alive"
    assert now == later


def test_children_do_not_outlive_an_agent_that_ended(tmp_path: Path) -> None:
    code = (
        f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {BEATING!r}],"
        " start_new_session=True); time.sleep(0.5)"
    )
    work, _ = run(tmp_path, python(code))
    assert work == AgentResult()
    now, later = heartbeats(tmp_path)
    assert now == later


def test_endless_and_binary_output_is_cut(tmp_path: Path) -> None:
    code = (
        "import sys; w = sys.stdout.buffer.write; w(b'first\\xff\\n')\n"
        "for _ in range(100): w(b'x' * 1_000_000)\nw(b'\\nlast')"
    )
    work, task = run(tmp_path, python(code), 60)
    assert work == AgentResult()
    text = output(task)
    assert text.startswith("first\ufffd\n")
    assert text.endswith("\nlast")
    assert len(text) < 200_000


WRONG_RESULTS = {
    '{"cost": "0.12"}': "not a number",
    '{"cost": true}': "not a number",
    '{"cost": NaN}': "`cost`",
    '{"cost": -1}': "`cost`",
    f'{{"cost": 1{"0" * 400}}}': "result file is wrong",
    '{"tokens": {"prompt": "many"}}': "`tokens.prompt`: Input",
    '{"tokens": 3}': "`tokens`: Input should be a valid dictionary",
    "[1]": "not a JSON object",
    '{"cost": 0.1': "result file is wrong",
    "[" * 100_000: "result file is wrong",
    " " * 1_000_001: "1,000,000 are the most",
    "\udcff": "result file is wrong",
}
TOKENS = '{"cost": 0, "calls": 3, "tokens": {"prompt": 5, "completion": 2}}'


def test_what_it_says_it_spent(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for text, cost, usage in (
        ('{"cost": 0.12}', Decimal("0.12"), None),
        (TOKENS, 0.0, Usage(5, 2, 0)),
        ("{}", None, None),
    ):
        path.write_text(text)
        spent, problem = read_spent(path)
        assert (spent.cost, spent.usage, problem) == (cost, usage, ""), text
    for text, expected in WRONG_RESULTS.items():
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        spent, problem = read_spent(path)
        assert (spent.cost, spent.usage) == (None, None), text[:99]
        assert expected in problem, text[:99]


def test_a_result_file_that_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in read_spent(tmp_path / "pipe")[1]
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert read_spent(tmp_path / "link") == read_spent(tmp_path / "none")


def test_the_cost_is_read_from_the_file_that_the_template_names(tmp_path: Path) -> None:
    code = "import sys; open(sys.argv[1], 'w').write('{\"cost\": 0.25}')"
    _, task = run(tmp_path, python(code, "{result_file}"))
    assert task.transcript.calls[0].cost == 0.25
    work, task = run(tmp_path, python(code.replace("0.25", "x"), "{result_file}"))
    assert task.transcript.calls[0].cost is None
    assert "result file is wrong" in work.error


def test_what_cannot_be_run_is_infrastructure(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_bytes(b"\x7fELF nonsense")
    script.chmod(0o755)
    with pytest.raises(InfrastructureError, match="cannot run"):
        run(tmp_path, str(script))


@pytest.mark.parametrize(
    ("name", "env", "problem"),
    [
        (
            "command:no-such-command-at-all {model}",
            (),
            "no command 'no-such-command-at-all'",
        ),
        ("command:", (), "is empty"),
        ("command:sh 'x", (), "fix the quotes"),
        ("command:sh", ("NOT_SET_AT_ALL",), "agent.env NOT_SET_AT_ALL: not set"),
        (
            "command:sh --key sk-abcdefgh",
            (),
            "the value of MY_API_KEY: pass it with --set agent.env=",
        ),
        ("nobody", (), "give one of builtin, command:TEMPLATE"),
        ("no.such.module:agent", (), "cannot be loaded"),
        ("json:nothing", (), "cannot be loaded"),
        ("json:dumps", (), "no method `work`"),
    ],
)
def test_wrong_agents_are_refused(
    name: str,
    env: tuple[str, ...],
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_API_KEY", "sk-abcdefgh")
    with pytest.raises(UserError) as caught:
        load_agent(name, AgentSettings(env=env))
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_agents_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "their_agents-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: their-agents\nVersion: 1\n"
    )
    (info / "entry_points.txt").write_text(
        "[swe_retry_harness.agents]\n"
        "theirs = swe_retry.agent.builtin:BuiltinAgent\ngone = no.such:thing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load_agent("theirs") == BuiltinAgent()
    with pytest.raises(UserError, match="--agent gone: it cannot be loaded"):
        load_agent("gone")
    with pytest.raises(UserError, match="aider, theirs, gone"):
        load_agent("nobody")


def test_agents_by_name() -> None:
    assert load_agent("builtin") == BuiltinAgent()
    assert load_agent("swe_retry.agent.builtin:BuiltinAgent") == BuiltinAgent()
    agent = load_agent("command:sh -c true", AgentSettings(env=("PATH",), timeout=5))
    assert isinstance(agent, CommandAgent)
    assert Path(agent.argv[0]).is_absolute()
