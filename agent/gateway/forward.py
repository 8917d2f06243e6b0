"""Start a command with a way to the gateway: ``python forward.py PORT SOCKET ARGV…``.

A sandbox without network has a loopback interface of its own. This listens there on PORT, passes
each connection on to the unix socket SOCKET, and ends with the command's exit code.

This file runs by itself in an isolated interpreter and imports nothing else of the harness.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import StreamReader, StreamWriter


async def pass_on(source: StreamReader, target: StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
        target.write_eof()
    except OSError:
        target.close()


async def main(port: str, path: str, *argv: str) -> int:
    async def serve(agent_reader: StreamReader, agent_writer: StreamWriter) -> None:
        try:
            gateway_reader, gateway_writer = await asyncio.open_unix_connection(path)
        except OSError:
            agent_writer.close()
            return
        await asyncio.gather(
            pass_on(agent_reader, gateway_writer), pass_on(gateway_reader, agent_writer)
        )
        gateway_writer.close()
        agent_writer.close()

    await asyncio.start_server(serve, "127.0.0.1", int(port), backlog=128)
    process = await asyncio.create_subprocess_exec(*argv)
    code = await process.wait()
    if code < 0:
        # A shell reports the end by a signal so.
        return 128 - code
    return code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
