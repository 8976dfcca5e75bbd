#!/usr/bin/env python3
"""`burnish mcp`, spoken to by the protocol's own client, which checks each answer against the protocol's types: part of `./dev golden check`.

The client speaks later versions, too, and has to settle on one that burnish speaks. Exits 1 otherwise.
"""
import asyncio, os, pathlib, sys, tempfile

import jsonschema
from mcp import Client, StdioServerParameters

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "assets/tiny-flux"
BURNISH = os.path.abspath(os.environ.get("BURNISH", "build/burnish"))


def structured(result):
    assert not result.is_error, result.content
    return result.structured_content


async def check(mode, workspace):
    server = StdioServerParameters(command=BURNISH, args=["mcp", str(workspace)])
    async with Client(server, mode=mode) as client:
        assert client.protocol_version == "2025-06-18", client.protocol_version
        assert client.server_info.name == "burnish"
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for tool in tools.values():
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        options = {"model": [str(MODEL)], "height": 64, "width": 64, "lora_rank": 8, "max_steps": 3}
        jsonschema.validate({"options": options}, tools["plan_run"].input_schema)
        planned = structured(await client.call_tool("plan_run", {"options": options, "fit": True}))
        assert planned["exit_code"] == 0 and planned["plan"]["stages"], planned
        wrong = structured(await client.call_tool("plan_run", {"options": {**options, "lora_rank": 0}}))
        assert wrong["problems"][0]["option"] == "lora_rank", wrong
        refused = await client.call_tool("get_run", {"run": "nothing"})
        assert refused.is_error and "no such run" in refused.content[0].text, refused
        assert structured(await client.call_tool("list_options", {"search": "rank"}))["total"] > 3
        assert structured(await client.call_tool("get_machine"))["total_bytes"] > 0
        return len(tools)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for mode in ("legacy", "auto"):
            count = asyncio.run(check(mode, pathlib.Path(folder) / "work"))
        print(f"mcp: {count} tools, planned by the protocol's own client")


if __name__ == "__main__":
    sys.exit(main())
