"""A small coding agent: ``python fakeagent.py DIALECT MODEL MESSAGE_FILE [OPTION…]``.

It asks its model until an answer calls no tool. Its tool replaces a text in a file, or runs a
command. It uses the standard library alone, because it runs in a sandbox. Options: ``stream``;
``hang-up`` leaves each answer in the middle once; ``web`` offers a tool of the provider;
``model=NAME`` asks for another model; ``loop`` repeats what fails; ``clock`` puts the time into
its results; ``probe`` prints what it can reach; ``burst=N`` asks N times at once; ``killed`` dies
after its first result; ``hurry`` ends before its answers; ``daemon=NAME`` leaves a process of
that name.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.parse
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, Popen, run
from typing import Any

DIALECT, MODEL, MESSAGE = sys.argv[1:4]
OPTIONS = dict((word.partition("=")[::2]) for word in sys.argv[4:])
STREAM = "stream" in OPTIONS
ROOTS = {"messages": "ANTHROPIC_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}
KEYS = {"messages": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def main() -> None:
    model = OPTIONS.get("model", MODEL)
    conversation = [asked(Path(MESSAGE).read_text())]
    if "probe" in OPTIONS:
        print(json.dumps(reach()))
    for _ in range(int(OPTIONS.get("burst", 0))):
        threading.Thread(target=ask, args=(conversation, model)).start()
    if "hurry" in OPTIONS:
        time.sleep(0.5)
        os._exit(0)
    while True:
        status, answer = ask(conversation, model)
        if status != 200 or answer is None:
            print(f"status {status}: {json.dumps(answer)}", file=sys.stderr)
            if "loop" not in OPTIONS:
                sys.exit(0)  # as qwen, goose, openhands and aider do
            time.sleep(0.05)
            continue
        calls = said(answer, conversation)
        if not calls:
            break
        for identity, name, arguments in calls:
            answered(conversation, identity, name, use(arguments))
        if "killed" in OPTIONS:
            os.kill(os.getpid(), signal.SIGKILL)
    if "daemon" in OPTIONS:
        code = "import time; time.sleep(600)"
        argv = [sys.executable, "-c", code, OPTIONS["daemon"]]
        Popen(argv, env={}, start_new_session=True, stdout=DEVNULL, stderr=DEVNULL)
    print("the agent has ended")


def use(arguments: dict[str, Any]) -> str:
    if "command" in arguments:
        shell = ["bash", "-c", arguments["command"]]
        return run(shell, stdout=PIPE, stderr=STDOUT, text=True).stdout
    path = Path(arguments["path"])
    path.write_text(path.read_text().replace(arguments["old"], arguments["new"]))
    return f"replaced at {time.time_ns()}" if "clock" in OPTIONS else "replaced"


def ask(conversation: list[dict[str, Any]], model: str) -> tuple[int, Any]:
    root = os.environ[ROOTS.get(DIALECT, "OPENAI_BASE_URL")]
    key = os.environ[KEYS.get(DIALECT, "OPENAI_API_KEY")]
    address = urllib.parse.urlsplit(root)
    path, body = request(conversation, model)
    headers = {"content-type": "application/json", "x-api-key": key}
    headers |= {"authorization": f"Bearer {key}", "x-goog-api-key": key}
    connection = http.client.HTTPConnection(
        address.hostname or "", address.port, timeout=120
    )
    connection.request("POST", address.path + path, json.dumps(body), headers)
    response = connection.getresponse()
    if "hang-up" in OPTIONS and response.status == 200:
        del OPTIONS["hang-up"]
        response.read(10)
        connection.sock.close()
        return ask(conversation, model)
    try:
        text = response.read().decode()
    except http.client.IncompleteRead:
        return response.status, None
    if STREAM and response.status == 200:
        return 200, fold([json.loads(d) for d in data(text) if d != "[DONE]"])
    return response.status, json.loads(text or "null")


def data(text: str) -> list[str]:
    return [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]


def request(
    conversation: list[dict[str, Any]], model: str
) -> tuple[str, dict[str, Any]]:
    tool = {"name": "replace", "description": "Replace a text."}
    web = "web" in OPTIONS
    if DIALECT == "messages":
        tools: list[Any] = [{**tool, "input_schema": SCHEMA}]
        tools += [{"type": "web_search_20250305", "name": "web_search"}] if web else []
        body = {
            "model": model,
            "max_tokens": 1000,
            "messages": conversation,
            "tools": tools,
        }
        return "/v1/messages?beta=true", {**body, "stream": STREAM}
    if DIALECT == "gemini":
        tools = [{"functionDeclarations": [{**tool, "parameters": SCHEMA}]}]
        tools += [{"googleSearch": {}}] if web else []
        verb = "streamGenerateContent?alt=sse" if STREAM else "generateContent"
        body = {"contents": conversation, "tools": tools}
        return f"/v1beta/models/{model}:{verb}", body
    if DIALECT == "chat":
        tools = [{"type": "function", "function": {**tool, "parameters": SCHEMA}}]
        extra: dict[str, Any] = {"web_search_options": {}} if web else {}
        body = {"model": model, "messages": conversation, "tools": tools, **extra}
        return "/chat/completions", {**body, "stream": STREAM}
    tools = [{"type": "function", **tool, "parameters": SCHEMA}]
    tools += [{"type": "web_search"}] if web else []
    body = {"model": model, "input": conversation, "tools": tools, "stream": STREAM}
    return "/responses", body


def asked(text: str) -> dict[str, Any]:
    if DIALECT == "gemini":
        return {"role": "user", "parts": [{"text": text}]}
    return {"role": "user", "content": text}


def fold(events: list[dict[str, Any]]) -> Any:
    if any("error" in event for event in events):
        return None
    if DIALECT == "responses":
        ends = [e["response"] for e in events if e["type"] == "response.completed"]
        return ends[0] if ends else None
    if DIALECT == "gemini":
        parts = [p for e in events for p in e["candidates"][0]["content"]["parts"]]
        finished = any(e["candidates"][0].get("finishReason") for e in events)
        return {"candidates": [{"content": {"parts": parts}}]} if finished else None
    if DIALECT == "chat":
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        for delta in (c["delta"] for e in events for c in e["choices"]):
            message["content"] += delta.get("content") or ""
            for part in delta.get("tool_calls", []):
                calls = message.setdefault("tool_calls", [])
                if "id" in part:
                    calls.append({k: part[k] for k in ("id", "type", "function")})
                else:
                    calls[part["index"]]["function"]["arguments"] += part["function"][
                        "arguments"
                    ]
        finished = any(c["finish_reason"] for e in events for c in e["choices"])
        return {"choices": [{"message": message}]} if finished else None
    blocks: list[dict[str, Any]] = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "partial": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            blocks[event["index"]]["partial"] += delta.get("text") or delta.get(
                "partial_json", ""
            )
    for block in blocks:
        text = block.pop("partial")
        block.update(
            {"text": text} if block["type"] == "text" else {"input": json.loads(text)}
        )
    return (
        {"content": blocks} if events and events[-1]["type"] == "message_stop" else None
    )


def said(
    answer: Any, conversation: list[dict[str, Any]]
) -> list[tuple[str, str, dict[str, Any]]]:
    """Put the answer into the conversation and return the calls of tools in it."""
    if DIALECT == "messages":
        conversation.append({"role": "assistant", "content": answer["content"]})
        uses = [b for b in answer["content"] if b["type"] == "tool_use"]
        return [(b["id"], b["name"], b["input"]) for b in uses]
    if DIALECT == "chat":
        message = answer["choices"][0]["message"]
        conversation.append(message)
        calls = [(c["id"], c["function"]) for c in message.get("tool_calls") or ()]
        return [(i, f["name"], json.loads(f["arguments"])) for i, f in calls]
    if DIALECT == "responses":
        conversation.extend(answer["output"])
        items = [i for i in answer["output"] if i["type"] == "function_call"]
        return [(i["call_id"], i["name"], json.loads(i["arguments"])) for i in items]
    parts = answer["candidates"][0]["content"]["parts"]
    conversation.append({"role": "model", "parts": parts})
    made = [p["functionCall"] for p in parts if "functionCall" in p]
    return [(c["name"], c["name"], c["args"]) for c in made]


def answered(
    conversation: list[dict[str, Any]], identity: str, name: str, result: str
) -> None:
    if DIALECT == "messages":
        block = {"type": "tool_result", "tool_use_id": identity, "content": result}
        conversation.append({"role": "user", "content": [block]})
    elif DIALECT == "chat":
        conversation.append(
            {"role": "tool", "tool_call_id": identity, "content": result}
        )
    elif DIALECT == "responses":
        output = {"type": "function_call_output", "call_id": identity, "output": result}
        conversation.append(output)
    else:
        response = {"name": name, "response": {"output": result}}
        conversation.append({"role": "user", "parts": [{"functionResponse": response}]})


def reach() -> dict[str, str]:
    """Return what becomes of each connection that must not be made."""
    outcomes = {}
    addresses = {
        "metadata": ("169.254.169.254", 80),
        "stub": ("127.0.0.1", int(OPTIONS["probe"])),
        "name": ("example.com", 80),
    }
    for name, address in addresses.items():
        try:
            socket.create_connection(address, timeout=3).close()
            outcomes[name] = "connected"
        except OSError as error:
            outcomes[name] = type(error).__name__
    outcomes["environment"] = "\n".join(f"{k}={v}" for k, v in os.environ.items())
    outcomes["counters"] = Path("/proc/net/dev").read_text()
    return outcomes


if __name__ == "__main__":
    main()
