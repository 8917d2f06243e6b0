"""``calls.trace`` with a real collector and a real server of a model, both on loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from swe_retry.core.errors import UserError
from swe_retry.instances.dataset import load_dataset
from swe_retry.llm.tracing import make_tracing
from tests.support import TOP, read_json, wait_until
from tests.support.collector import Collector, values
from tests.support.commands import Preloaded
from tests.support.provider import Answer, Provider
from tests.support.runs import EDIT

pytestmark = pytest.mark.system
ID = "demo__textkit-1"
KEY = "sk-sentinel-0123456789abcdef"
# Of the issue, the reply, and what the provider says of an error.
ISSUE = "slug"
REPLY = "elif letters"
QUOTED = "the-provider-quotes-the-prompt"
Run = Callable[[str], CompletedProcess[str]]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Collector() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        yield server


@pytest.fixture
def argv(tmp_path: Path, provider: Provider) -> list[str]:
    instance = f"--dataset demo --instances {ID} --environment none --run r"
    folders = f"--out {tmp_path} --set folders.cache={tmp_path}/cache"
    models = f"--api-base {provider.url} --models gpt-4o@diff,gpt-4o-mini@diff"
    limits = "--tries 1 --set calls.retries=0"
    return f"{instance} {folders} {models} {limits}".split()


@pytest.fixture
def run(preloaded: Preloaded, argv: Sequence[str]) -> Run:
    """Run the command with further options, which are one text."""
    return lambda options: preloaded.run(*argv, *options.split())


TRACED = "--set calls.trace=true"
ONE_MODEL = "--models gpt-4o@diff"


def statement() -> str:
    rows = load_dataset("demo", "test").rows
    (row,) = [row for row in rows if row["instance_id"] == ID]
    return str(row["problem_statement"])


def test_each_attempt_is_a_span_and_its_calls_lie_below_it(
    collector: Collector,
    provider: Provider,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {
        "gpt-4o": Answer("nothing"),
        "gpt-4o-mini": Answer(EDIT),
    }
    monkeypatch.setattr(provider, "answer", lambda request: answers[request["model"]])
    collector.delay = 1.0  # longer than the process takes to end
    result = run(f"{TRACED} --set choice.stop=all --set models.temperatures=0.5")
    assert result.returncode == 0, result.stdout
    assert "note: calls.trace" not in result.stdout
    first, second = collector.attempts
    assert first.trace_id != second.trace_id
    assert not first.parent_span_id
    assert first.name == "invoke_agent builtin"
    prediction = read_json(tmp_path / f"predictions/r/{ID}.json")
    outcomes = [attempt["status"] for attempt in prediction["all_results"]]
    assert "plausible_untested" in outcomes
    assert len(set(outcomes)) == 2
    models = list(answers)
    for number, span in enumerate((first, second), 1):
        expected = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "builtin",
            "gen_ai.request.model": models[number - 1],
            "gen_ai.conversation.id": f"r/{ID}/{number}",
            "retry_harness.run": "r",
            "retry_harness.instance": ID,
            "retry_harness.attempt": number,
            "retry_harness.outcome": outcomes[number - 1],
        }
        assert expected.items() <= values(span).items()

    # The last one too: the process ends at once after it.
    calls = collector.calls
    assert len(calls) == len(provider.requests)
    ids = {span.span_id for span in calls}
    assert len(ids) == len(calls)
    attempts = {first.span_id: first, second.span_id: second}
    for span, request in zip(calls, provider.requests, strict=True):
        parent = attempts[span.parent_span_id]
        call = values(span)
        assert span.trace_id == parent.trace_id
        assert parent.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= parent.end_time_unix_nano
        assert call["gen_ai.request.model"] == request["model"]
        assert call["gen_ai.request.model"] == values(parent)["gen_ai.request.model"]
        assert call["gen_ai.usage.input_tokens"] == 100
        assert call["gen_ai.usage.output_tokens"] == 10
        assert call["gen_ai.provider.name"] == "openai"
        assert call["retry_harness.cost_usd"] > 0


def run_one_model(run: Run, *, content: bool) -> CompletedProcess[str]:
    if content:
        return run(f"{TRACED} --set calls.trace_content=true {ONE_MODEL}")
    return run(f"{TRACED} {ONE_MODEL}")


@pytest.mark.parametrize("content", [False, True])
def test_text_is_sent_only_where_it_is_asked_for_and_keys_never(
    collector: Collector, provider: Provider, run: Run, content: bool
) -> None:
    assert ISSUE in statement()
    provider.will_answer("textkit/slug.py", f"The key is {KEY}.\n{EDIT}")
    result = run_one_model(run, content=content)
    assert result.returncode == 0, result.stdout
    assert len(collector.calls) == 2
    # As they stand in JSON, which may escape quotes and ends of lines.
    lines = []
    for line in statement().splitlines():
        if len(line) > 20 and '"' not in line:
            lines.append(line)
    assert lines
    for text in (*lines, REPLY, "expert software engineer"):
        assert (text.encode() in collector.received) == content, text
    assert (b"The key is [OPENAI_API_KEY]." in collector.received) == content
    assert KEY.encode() not in collector.received


@pytest.mark.parametrize(
    "content",
    [
        False,
        pytest.param(True, marks=pytest.mark.long),
    ],
)
def test_a_call_that_fails_is_a_span_without_what_the_provider_said(
    collector: Collector, provider: Provider, run: Run, content: bool
) -> None:
    error = {"message": f"{QUOTED} {KEY}"}
    provider.will_answer(Answer(status=500, error=error))
    result = run_one_model(run, content=content)
    assert result.returncode == 1, result.stdout
    (attempt,) = collector.attempts
    (call,) = [span for span in collector.spans if span.name.startswith("chat ")]
    assert call.parent_span_id == attempt.span_id
    assert call.trace_id == attempt.trace_id
    assert call.status.code == 2
    assert attempt.status.code == 2
    assert values(call)["error.type"] == "Failed"
    assert values(attempt)["error.type"] == "InfrastructureError"
    assert values(attempt)["retry_harness.outcome"] == "infra_error"
    assert (QUOTED.encode() in collector.received) == content
    assert KEY.encode() not in collector.received


def test_ctrl_c_ends_the_spans_and_sends_them(
    collector: Collector,
    provider: Provider,
    preloaded: Preloaded,
    argv: list[str],
) -> None:
    provider.will_answer("textkit/slug.py", Answer(EDIT, hang=2))
    process = preloaded.start(*argv, *TRACED.split())
    wait_until(lambda: len(provider.requests) >= 2)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 130, output
    (attempt,) = collector.attempts
    assert values(attempt)["retry_harness.outcome"] == "interrupted"
    assert values(attempt)["error.type"] == "StoppedError"
    assert {span.parent_span_id for span in collector.calls} == {attempt.span_id}
    assert len(collector.calls) == 2


@pytest.mark.long
@pytest.mark.parametrize("silent", [False, True])
def test_a_collector_that_is_not_there_takes_seconds_at_most(
    collector: Collector,
    provider: Provider,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    silent: bool,
) -> None:
    provider.will_answer(EDIT)
    run("--help")  # the first command waits for imports
    started = time.monotonic()
    run("--run untraced")
    usual = time.monotonic() - started
    started = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        if not silent:
            server.close()
        result = run(TRACED)
    assert result.returncode == 0, result.stdout
    assert (
        result.stdout.count("note: calls.trace: not all spans were sent in time") == 1
    )
    assert "Traceback" not in result.stdout
    assert time.monotonic() - started < usual + 8


def test_the_standard_variables_give_path_and_headers(
    collector: Collector,
    provider: Provider,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Langfuse wants them: below a path of its own, with a login."""
    provider.will_answer(EDIT)
    exporter = "OTEL_EXPORTER_OTLP"
    headers = "Authorization=Basic cGs6c2s=,x-version=4"
    monkeypatch.setenv(f"{exporter}_ENDPOINT", f"{collector.url}/api/public/otel")
    monkeypatch.setenv(f"{exporter}_HEADERS", headers)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "our-team")
    result = run(f"{TRACED} {ONE_MODEL}")
    assert result.returncode == 0, result.stdout
    (attempt,) = collector.attempts
    assert {span.parent_span_id for span in collector.calls} == {attempt.span_id}
    received = collector.received.lower()
    for part in (
        b"/api/public/otel/v1/traces\n",
        b"authorization: basic cgs6c2s=",
        b"our-team",
    ):
        assert part in received


@pytest.mark.ray
@pytest.mark.long
def test_spans_of_ray_workers_arrive_before_their_processes_end(
    collector: Collector,
    provider: Provider,
    argv: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds
    provider.will_answer("textkit/slug.py", EDIT)
    options = f"{TRACED} --set scale.ray=own --set scale.jobs=1".split()
    program = str(TOP / "harness.py")
    result = subprocess.run(
        [sys.executable, program, *argv, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    (attempt,) = collector.attempts
    assert values(attempt)["retry_harness.outcome"] == "plausible_untested"
    assert len(collector.calls) == 2


def test_what_cannot_be_traced_is_one_line_before_any_call(
    collector: Collector,
    provider: Provider,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
    queue = "max_queue_size must be a positive integer"
    for name, value, message in (
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", queue),
        (endpoint, "", f"set {endpoint} (docs/tracing.md)"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            result = run(TRACED)
        assert result.returncode == 2
        (line,) = result.stdout.splitlines()
        assert line.startswith(f"error: calls.trace: {message}")
        assert not provider.requests
        assert not collector.received


def test_a_missing_exporter_is_named(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, name, None)
    message = r"calls.trace: .*; run `make setup-trace`"
    with pytest.raises(UserError, match=message):
        make_tracing.__wrapped__("r", enabled=True, content=False)


@pytest.mark.long
def test_without_the_option_nothing_is_imported(
    argv: list[str], provider: Provider
) -> None:
    assert make_tracing("r", enabled=False, content=False) is None
    provider.will_answer("textkit/slug.py", EDIT)
    code = (
        "import sys\nfrom harness import main\n"
        f"sys.argv = {['harness.py', *argv]!r}\n"
        "code = main()\n"
        "import litellm\nprint(code, [n for n in sys.modules if n.startswith('opentelemetry')], "
        "litellm.callbacks, 'swe_retry.llm.tracing' in sys.modules)"
    )
    environment = {**os.environ, "OPENAI_API_KEY": KEY}
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=TOP,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    output = result.stdout + result.stderr
    lines = result.stdout.splitlines()
    assert lines[-1] == "0 [] [] True", output
