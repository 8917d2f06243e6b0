"""Know a request of an agent again in a replay: without what differs in each run."""

from __future__ import annotations

import re
from typing import Any

from swe_retry.llm.chat import canonical_sha256
from swe_retry.llm.dialects.dialect import AgentRequest

# Ids of a session, of a device, of a cache, and of items: they name, and say nothing.
_NAMES_ONLY = frozenset(
    {
        "metadata",
        "user",
        "prompt_cache_key",
        "safety_identifier",
        "client_metadata",
        "session_id",
    }
)
# What differs in each run, and its name. Few texts have any of it, and the first pattern, which
# begins with plain texts, is looked for much faster.
_PERHAPS_CHANGING = re.compile(
    r"-[0-9a-fA-F]{4}-|-\d{2}-\d{2}|day, [A-Z]|_1|Chunk ID: |Wall time: "
)
# A match is replaced by the name of its group.
_CHANGING = re.compile(
    r"(?P<UUID>[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12})"
    r"|\b(?P<DATE>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?Z?)?"
    r"|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, [A-Z][a-z]+ \d{1,2}, \d{4})"
    r"|(?<=_)(?P<MILLISECONDS>1\d{12})(?=_|\b)"
    r"|(?<=Chunk ID: )(?P<ID>\w+)|(?<=Wall time: )(?P<SECONDS>[\d.]+)"
)
_NUMBER = re.compile(r"\d+")


def turn_key(request: AgentRequest, model: str) -> str:
    """Return the hash of dialect, model, tools, kind of answer, task, and what the model said.

    The task is the first message of the user, without numbers: it tells sub-agents apart.
    """
    task = ""
    for message in request.conversation:
        if message.role == "user":
            task = _NUMBER.sub("0", without_ids(message.content))
            break
    parts = [
        request.dialect.name,
        model,
        request.streamed,
        request.tools,
        task,
        request.answer_identities,
    ]
    return canonical_sha256(parts)


def without_ids(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, dict):
        left_out = _NAMES_ONLY
        # The id of an item; that of a message stays.
        if "type" in value and "role" not in value:
            left_out |= {"id"}
        return {k: without_ids(v) for k, v in value.items() if k not in left_out}
    if isinstance(value, list):
        return [without_ids(item) for item in value]
    if isinstance(value, str) and _PERHAPS_CHANGING.search(value):
        return _CHANGING.sub(lambda match: match.lastgroup or "", value)
    return value
