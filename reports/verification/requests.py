"""Pure: compare the request hashes of an attempt's calls with its messages.

A conversation grows at its end, so each request is a prefix of the messages. This does not hold if
the oldest rounds were left out because the window was full, or if a truncated reply and its
continuation are one message. Then only the last request is computed: all messages but the last
reply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.attempts.records import AttemptRecord
from llm.chat import Message, request_sha256

OUTSIDE = "agent"
"""The edit format of a command, whose requests are not recorded."""


def wrong_request(record: AttemptRecord) -> str:
    """Return which call of ``record`` does not match its messages; empty if all match."""
    if not record.calls or record.edit_format == OUTSIDE:
        return ""
    if record.messages[-1:] and not _ends_with_reply(record):
        return f"the last message is not the reply of call {len(record.calls)}"
    requests = list(_requests(record))
    hashes = {request_sha256(request) for request in requests}
    shown = [message.content for message in record.messages if message.role == "assistant"]
    replied, found = "".join(call.reply.content for call in record.calls), "".join(shown)
    # The oldest rounds were left out if the messages do not begin with the first request.
    whole = bool(requests) and request_sha256(requests[0]) == record.calls[0].request_sha256
    if not replied.endswith(found) or (whole and replied != found):
        return "the messages do not hold the replies of the calls"
    every = len(shown) >= len(record.calls)
    checked = list(enumerate(record.calls, 1))[0 if every else -1 :]
    for number, call in checked:
        if call.request_sha256 not in hashes:
            return f"the request hash of call {number} is not that of its messages"
    return ""


def _ends_with_reply(record: AttemptRecord) -> bool:
    return record.messages[-1].content.endswith(record.calls[-1].reply.content)


def _requests(record: AttemptRecord) -> Iterator[Sequence[Message]]:
    """Yield possible requests: all messages before a reply, with or without a truncated reply."""
    for number, message in enumerate(record.messages):
        if message.role != "assistant":
            continue
        yield record.messages[:number]
        for call in record.calls:
            start = message.content.removesuffix(call.reply.content)
            if start and start != message.content:
                yield [*record.messages[:number], Message("assistant", start)]
