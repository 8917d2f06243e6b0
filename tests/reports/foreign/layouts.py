"""Writes one conversation in the layouts of other harnesses, by hand."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "demo__textkit-1"
PATCH = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-one = 1\n+one = 2\n"


@dataclass(frozen=True)
class Turn:
    """A reply with one action, and what it returned."""

    text: str
    command: str
    seen: str
    tool: str = "bash"
    key: str = "command"

    @property
    def arguments(self) -> dict[str, str]:
        return {self.key: self.command}

    @property
    def call(self) -> dict[str, Any]:
        function = {"name": self.tool, "arguments": json.dumps(self.arguments)}
        return {"id": "c", "type": "function", "function": function}


@dataclass(frozen=True)
class Talk:
    """A conversation on one instance."""

    turns: tuple[Turn, ...]
    prompt: str = "Resolve the issue."
    patch: str = PATCH
    name: str = NAME


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def mini(talk: Talk, folder: Path, *, tools: bool = True) -> Path:
    messages: list[dict[str, Any]] = [{"role": "user", "content": talk.prompt}]
    usage = {"prompt_tokens": 10, "completion_tokens": 2}
    for turn in talk.turns:
        extra = {"cost": 0.25, "response": {"usage": usage}, "actions": [turn.arguments]}
        said = {"role": "assistant", "content": turn.text, "extra": extra}
        seen: dict[str, Any] = {"role": "user", "content": turn.seen, "extra": {"returncode": 0}}
        if tools:
            said["tool_calls"] = [turn.call]
            seen |= {"role": "tool", "tool_call_id": "c"}
        messages += [said, seen]
    ending = {"exit_status": "Submitted", "submission": talk.patch}
    stats = {"instance_cost": 0.25 * len(talk.turns), "api_calls": len(talk.turns)}
    info = {"model_stats": stats, "config": {"model": {"model_name": "m"}}, **ending}
    messages.append({"role": "exit", "content": talk.patch, "extra": ending})
    data = {"info": info, "messages": messages, "instance_id": talk.name}
    _write(folder / talk.name / f"{talk.name}.traj.json", data)
    return folder


def mini_text(talk: Talk, folder: Path) -> Path:
    return mini(talk, folder, tools=False)


def sweagent(talk: Talk, folder: Path, *, history: bool = True) -> Path:
    said: list[dict[str, Any]] = [{"role": "user", "content": talk.prompt, "agent": "main"}]
    steps = []
    for turn in talk.turns:
        said.append({"role": "assistant", "content": turn.text, "tool_calls": [turn.call]})
        said.append({"role": "tool", "content": turn.seen, "tool_call_ids": ["c"]})
        steps.append({"action": turn.command, "observation": turn.seen, "response": turn.text})
    stats = {"instance_cost": 0.5, "tokens_sent": 10, "tokens_received": 2, "api_calls": 2}
    info = {"exit_status": "submitted", "submission": talk.patch, "model_stats": stats}
    data = {"trajectory": steps, "history": said if history else said[:1], "info": info}
    _write(folder / talk.name / f"{talk.name}.traj", {**data, "replay_config": None})
    return folder


def sweagent_steps(talk: Talk, folder: Path) -> Path:
    return sweagent(talk, folder, history=False)


def _openhands(talk: Talk, folder: Path, history: list[Any], **more: Any) -> Path:
    tokens = {"prompt_tokens": 10, "completion_tokens": 2, "cache_read_tokens": 4}
    line = {
        "instance_id": talk.name,
        "test_result": {"git_patch": talk.patch, **more},
        "instruction": talk.prompt,
        "metadata": {"llm_config": {"model": "m"}},
        "history": history,
        "metrics": {"accumulated_cost": 0.5, "accumulated_token_usage": tokens},
        "error": None,
    }
    folder.mkdir(parents=True)
    (folder / "output.jsonl").write_text(json.dumps(line) + "\n")
    return folder


def openhands(talk: Talk, folder: Path) -> Path:
    history: list[Any] = []
    for number, turn in enumerate(talk.turns):
        text = [{"type": "text", "text": turn.text}]
        call = {"id": "c", "name": turn.tool, "arguments": json.dumps(turn.arguments)}
        asked = {"thought": text, "tool_call": call, "tool_call_id": "c", "tool_name": turn.tool}
        history.append({"kind": "ActionEvent", "llm_response_id": f"r{number}", **asked})
        seen = {"kind": "Seen", "content": [{"type": "text", "text": turn.seen}]}
        history.append({"kind": "ObservationEvent", "tool_call_id": "c", "observation": seen})
    return _openhands(talk, folder, history)


def _old_events(talk: Talk) -> list[list[dict[str, Any]]]:
    return [
        [
            {"source": "agent", "action": t.tool, "args": {**t.arguments, "thought": t.text}},
            {"source": "environment", "observation": "run", "content": t.seen},
        ]
        for t in talk.turns
    ]


def openhands_old(talk: Talk, folder: Path) -> Path:
    events = [event for pair in _old_events(talk) for event in pair]
    return _openhands(talk, folder, events, report={"resolved": True})


def openhands_pairs(talk: Talk, folder: Path) -> Path:
    return _openhands(talk, folder, _old_events(talk))


def _inspected(talk: Talk) -> tuple[dict[str, Any], dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": talk.prompt}]
    for turn in talk.turns:
        call = {"id": "c", "function": turn.tool, "arguments": turn.arguments}
        content = [{"type": "text", "text": turn.text}]
        messages.append({"role": "assistant", "content": content, "tool_calls": [call]})
        messages.append({"role": "tool", "content": turn.seen, "tool_call_id": "c"})
    usage = {"input_tokens": 6, "input_tokens_cache_read": 4, "output_tokens": 2}
    score = {"value": "C", "metadata": {"model_patch": talk.patch}}
    sample = {
        "id": talk.name,
        "epoch": 1,
        "input": talk.prompt,
        "target": "",
        "messages": messages,
        "scores": {"swe_bench_scorer": score},
        "model_usage": {"m": {**usage, "total_tokens": 12}},
    }
    task = {"task": "swe_bench", "model": "m", "created": "2026-01-01T00:00:00+00:00"}
    task |= {"dataset": {}, "config": {}}  # type: ignore[dict-item]
    return {"version": 2, "status": "success", "eval": task}, sample


def inspect_json(talk: Talk, folder: Path) -> Path:
    header, sample = _inspected(talk)
    path = folder / "log.json"
    _write(path, {**header, "samples": [sample]})
    return path


def inspect_eval(talk: Talk, folder: Path) -> Path:
    header, sample = _inspected(talk)
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "log.eval", "w") as packed:
        packed.writestr("header.json", json.dumps(header))
        packed.writestr(f"samples/{talk.name}_epoch_1.json", json.dumps(sample))
    return folder


def atif(talk: Talk, folder: Path) -> Path:
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": talk.prompt}]
    for number, turn in enumerate(talk.turns, 2):
        call = {"tool_call_id": "c", "function_name": turn.tool, "arguments": turn.arguments}
        result = {"source_call_id": "c", "content": turn.seen}
        metrics = {"prompt_tokens": 10, "completion_tokens": 2, "cost_usd": 0.25}
        said = {"step_id": number, "source": "agent", "message": turn.text, "metrics": metrics}
        steps.append({**said, "tool_calls": [call], "observation": {"results": [result]}})
    data = {
        "schema_version": "ATIF-v1.6",
        "session_id": talk.name,
        "agent": {"name": "a", "version": "1", "model_name": "m"},
        "steps": steps,
    }
    _write(folder / "trial/agent/trajectory.json", data)
    return folder


LAYOUTS: tuple[Callable[[Talk, Path], Path], ...] = (
    mini, mini_text, sweagent, sweagent_steps, openhands, openhands_old, openhands_pairs,
    inspect_json, inspect_eval, atif,
)  # fmt: skip
