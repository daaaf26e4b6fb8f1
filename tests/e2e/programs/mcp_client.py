# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The gpumemshim authors
"""Asks `gpumemshim mcp FOLDER` as an assistant does, by the protocol's own client, and prints the answers as a JSON line."""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

CALLS = {
    "list_traces": ("list_traces", {}),
    "report": ("report", {"trace": "leak.gmtrace"}),
    "leaks": ("leaks", {"trace": "leak.gmtrace"}),
    "at": ("at", {"trace": "leak.gmtrace", "moment": "step 3"}),
    "sql": ("sql", {"trace": "leak.gmtrace", "query": "-- of a comment\nSELECT count(*) FROM steps"}),
    "outside": ("report", {"trace": "../secret.gmtrace"}),
    "missing": ("report", {"trace": "none.gmtrace"}),
    "flag": ("at", {"trace": "leak.gmtrace", "moment": "--rules=/etc/passwd"}),
}


async def main(folder):
    server = StdioServerParameters(command=sys.argv[2], args=["mcp", "--python", sys.executable, folder], env=dict(os.environ))
    async with stdio_client(server) as (reads, writes), ClientSession(reads, writes) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        annotations = [tool.annotations.model_dump() for tool in tools]
        answers = {"tools": sorted(tool.name for tool in tools), "read_only": [each.get("read_only_hint", each.get("readOnlyHint")) for each in annotations]}
        for name, (tool, arguments) in CALLS.items():
            answers[name] = (await session.call_tool(tool, arguments)).content[0].text
    if "DuckDB" in answers["sql"]:
        answers["sql"] = "DuckDB"
    print(json.dumps(answers))


asyncio.run(main(sys.argv[1]))
