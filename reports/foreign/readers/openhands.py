"""Read runs of OpenHands: ``output.jsonl`` with a line for each attempt on an instance.

Lines of OpenHands/benchmarks have events of its SDK in ``history``, with a ``kind``
(``openhands/sdk/event/``); those of OpenHands itself have ``action`` and ``observation``, or pairs
of them (``evaluation/utils/shared.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError, UserError
from reports.data.jsonvalues import dollars, flag, mapping, text, whole
from reports.data.rundata import StepTotals
from reports.foreign.files import (
    RunFiles,
    action_of,
    answer,
    as_text,
    called,
    checked_id,
    content_text,
    objects_of_lines,
    patch_of,
)
from reports.foreign.model import (
    ASSISTANT,
    TOOL,
    AgentAttempt,
    AgentStep,
    AttemptedInstance,
    folded,
)
from reports.foreign.readers.joining import priced
from reports.foreign.readers.predictions import verdicts_beside

OUTPUT = "output.jsonl"
# The same lines with verdicts, which its evaluation writes beside them.
EVALUATED = "output.swebench_eval.jsonl"


def is_openhands(value: object) -> bool:
    return isinstance(value, Mapping) and "instance_id" in value and "test_result" in value


def read_openhands(files: RunFiles) -> Iterator[AttemptedInstance]:
    found = files.named(OUTPUT) if not files.labels else ()
    found = found or files.named(EVALUATED) or files.named(OUTPUT)
    if len(found) > 1 and not files.root.is_file():
        raise UserError(f"{files.root} holds several runs, as {found[0]} and {found[1]}; name one")
    path = files.root if files.root.is_file() or not found else found[0]
    paths = tuple(p for p in files.paths if p.parent == path.parent)
    beside = RunFiles(path.parent, paths, files.labels)
    resolved = {} if files.root.is_file() else verdicts_beside(beside)
    lines = objects_of_lines(path)
    counts = Counter(checked_id(path, line.get("instance_id")) for _, line in lines)
    waiting: dict[str, list[AttemptedInstance]] = {}
    for number, line in objects_of_lines(path):
        one = _instance(path, number, line)
        name = one.instance_id
        if name in resolved and one.resolved is None:
            one = replace(one, resolved=resolved[name])
        every = waiting.setdefault(name, [])
        every.append(one)
        if len(every) == counts[name]:
            # The last attempt is the predicted one.
            ordered = sorted(waiting.pop(name), key=lambda one: one.attempts[0].attempt)
            attempts = tuple(attempt for one in ordered for attempt in one.attempts)
            if len({attempt.attempt for attempt in attempts}) < len(attempts):
                words = f"has attempt {attempts[0].attempt} on {name} twice"
                raise DamagedFileError(path, words, "keep one line")
            yield replace(ordered[-1], attempts=attempts)


def _instance(path: Path, number: int, line: Mapping[str, Any]) -> AttemptedInstance:
    result, metadata = mapping(line.get("test_result")), mapping(line.get("metadata"))
    # Before 2024-10 the patch stood in the line itself.
    patch = patch_of(path, result.get("git_patch", line.get("git_patch")))
    config = mapping(metadata.get("llm_config")) or mapping(metadata.get("llm"))
    error = as_text(line["error"]) if line.get("error") else ""
    metrics = mapping(line.get("metrics"))
    tokens = mapping(metrics.get("accumulated_token_usage"))
    prompt = whole(tokens.get("prompt_tokens"))
    calls = metrics.get("token_usages") or metrics.get("costs")
    attempt = AgentAttempt(
        attempt=whole(line.get("attempt")) or 1,
        model=text(config.get("model")) or None,
        steps=_steps(line, number),
        totals=StepTotals(
            calls=len(calls) if isinstance(calls, list) else None,
            prompt_tokens=prompt,
            cached_tokens=whole(tokens.get("cache_read_tokens")),
            completion_tokens=whole(tokens.get("completion_tokens")),
            cost=priced(dollars(metrics.get("accumulated_cost")), prompt),
        ),
        patch=patch,
        exit_status="error" if error else None,
        error=error,
        source=path,
    )
    return AttemptedInstance(
        instance_id=checked_id(path, line.get("instance_id")),
        label=attempt.model,
        attempts=(attempt,),
        winner=attempt.attempt if patch and patch.strip() else None,
        resolved=flag(mapping(result.get("report")).get("resolved")),
    )


def _steps(line: Mapping[str, Any], number: int) -> tuple[AgentStep, ...] | None:
    """Return the conversation; None if the line holds none, as failed runs do."""
    history = line.get("history")
    if not isinstance(history, list) or not history:
        return None
    flat = [e for one in history for e in (one if isinstance(one, list) else [one])]
    place = f"line {number}: history"
    found: list[tuple[str, AgentStep | None]] = []
    for nth, event in enumerate(map(mapping, flat)):
        read = _of_sdk if "kind" in event else _of_runtime
        reply = text(event.get("llm_response_id")) if "kind" in event else ""
        found.append((reply, read(event, f"{place}[{nth}]")))
    instruction = text(line.get("instruction"))
    if instruction and not any(s and instruction.strip() in s.text for _, s in found):
        found.insert(0, ("", AgentStep("user", instruction, place=f"line {number}: instruction")))
    return folded(_by_reply(found))


def _by_reply(found: Iterable[tuple[str, AgentStep | None]]) -> list[AgentStep]:
    """Return the steps; actions of one reply of the model, each an event of its own, are one."""
    steps: list[AgentStep] = []
    replies: dict[str, int] = {}
    for reply, step in found:
        if step is None:
            continue
        if reply and reply in replies:
            before = steps[replies[reply]]
            steps[replies[reply]] = replace(before, actions=(*before.actions, *step.actions))
            continue
        if reply:
            replies[reply] = len(steps)
        steps.append(step)
    return steps


def _of_sdk(event: Mapping[str, Any], place: str) -> AgentStep | None:
    if "llm_message" in event:
        said = mapping(event["llm_message"])
        extended = content_text(event.get("extended_content"))
        written = "\n".join(filter(None, [content_text(said.get("content")), extended]))
        calls = called(said.get("tool_calls"))
        return AgentStep(text(said.get("role")) or "user", written, actions=calls, place=place)
    if "tool_call" in event:
        calls = called([event["tool_call"]])
        if not calls or not calls[0].arguments:
            calls = (action_of(event.get("tool_name"), event.get("action")),)
        named = replace(calls[0], id=text(event.get("tool_call_id")))
        reasoning = text(event.get("reasoning_content"))
        written = content_text(event.get("thought"))
        return AgentStep(ASSISTANT, written, reasoning, (named,), place=place)
    if "system_prompt" in event:
        return AgentStep("system", content_text(event["system_prompt"]), place=place)
    if "tool_call_id" in event:
        seen = event.get("observation") or event.get("error") or event.get("rejection_reason")
        shown = seen if isinstance(seen, str) else ""
        if isinstance(seen, dict):  # its content, else all its texts
            shown = content_text(seen.get("content")) or text(seen.get("output"))
            texts = (v for k, v in seen.items() if isinstance(v, str) and k != "kind")
            shown = shown or "\n".join(texts)
        parts = [shown, content_text(event.get("extended_content"))]
        seen = "\n".join(filter(None, parts))
        return AgentStep(TOOL, seen, actions=answer(event), place=place)
    return None


def _of_runtime(event: Mapping[str, Any], place: str) -> AgentStep | None:
    args = mapping(event.get("args"))
    if "observation" in event:
        return AgentStep(TOOL, content_text(event.get("content")), actions=answer({}), place=place)
    action = text(event.get("action"))
    if action in ("message", "system"):
        role = "system" if action == "system" else ""
        role = role or (ASSISTANT if event.get("source") == "agent" else "user")
        return AgentStep(role, text(args.get("content")) or text(event.get("message")), place=place)
    if not action:
        return None
    kept = {key: value for key, value in args.items() if key not in ("thought", "final_thought")}
    thought = text(args.get("thought")) or text(args.get("final_thought"))
    return AgentStep(ASSISTANT, thought, actions=(action_of(action, kept),), place=place)
