"""The tools for assistants: files are sent and returned inline."""

import base64
import json
from datetime import timedelta

import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

from app.web.offered_models import example
from tests.app.web.browser import MODEL, run_apart, serving
from tokenization.midi.rows import rows_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:Use `streamable_http_client`"),  # which older ones lack
]
TRIO = base64.b64encode(example("trio-jazz")).decode()


async def called(address: str, *asked: dict[str, object]) -> list[tuple[bool, str]]:
    """Return for each call of the tool `write` whether it failed, and its text."""
    async with (
        streamablehttp_client(f"{address}/gradio_api/mcp/") as (read, write, _),
        ClientSession(read, write, timedelta(seconds=100)) as session,
    ):
        await session.initialize()
        listed = await session.list_tools()
        (name,) = [tool.name for tool in listed.tools if tool.name.endswith("write")]
        answers = [await session.call_tool(name, arguments) for arguments in asked]
        return [(bool(one.isError), one.content[0].text) for one in answers]


def test_an_assistant_writes_in_a_file_without_an_address():
    asked = {"do": "rewrite", "bars": "5-6", "parts": "Bass", "file": TRIO}
    with serving("--model", MODEL, "--mcp") as address:
        (is_error, text), (is_wrong, said) = run_apart(
            called(address, asked, {**asked, "bars": "90-91"})
        )
    assert not is_error, text
    (take,) = json.loads(text)["takes"]
    rows = rows_of(base64.b64decode(take["file"]))["notes"]
    assert rows == take["notes"]
    assert {row[0] for row in rows} == {1}
    assert is_wrong
    assert "are not within the 16 bars" in said
