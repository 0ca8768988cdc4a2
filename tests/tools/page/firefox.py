"""Firefox for the tools of the page, by WebDriver BiDi; Playwright's protocol needs a build of its own."""

import asyncio
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tornado.websocket import WebSocketClientConnection, websocket_connect

NAMES = ("firefox", "firefox-esr")
PORT = "WebDriverBiDiServer.json"  # in its profile
SECONDS = 60  # for its start
MOST = 1 << 28  # bytes of a message
SETTINGS = {
    "media.autoplay.default": 0, "media.autoplay.blocking_policy": 0, "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False, "app.update.disabledForTesting": True,
    "network.connectivity-service.enabled": False, "network.captive-portal-service.enabled": False,
}  # fmt: skip


class Firefox:
    """A page in a running Firefox."""

    def __init__(self, loop: asyncio.AbstractEventLoop, line: WebSocketClientConnection) -> None:
        self._loop, self._line, self._numbers = loop, line, count(1)
        self._send("session.new", capabilities={})
        self._page = self._send("browsingContext.create", type="tab")["context"]

    def _send(self, method: str, **values: Any) -> dict[str, Any]:
        return self._loop.run_until_complete(self._answered(method, values))

    async def _answered(self, method: str, values: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        await self._line.write_message(
            json.dumps({"id": number, "method": method, "params": values})
        )
        while (said := await self._line.read_message()) is not None:
            answer = json.loads(said)
            if answer.get("id") == number:
                if answer["type"] == "error":
                    raise RuntimeError(f"{method}: {answer['message']}")
                return answer["result"]
        raise ConnectionError("Firefox has ended")

    def show(self, width: int, height: int) -> None:
        """Set the size of the page."""
        self._send(
            "browsingContext.setViewport",
            context=self._page,
            viewport={"width": width, "height": height},
        )

    def goto(self, address: str, *, wait: str = "none") -> None:
        """Open an address, and wait for nothing, or until it is "interactive" or "complete"."""
        self._send("browsingContext.navigate", context=self._page, url=address, wait=wait)

    def evaluate(self, function: str, value: Any = None) -> Any:
        """Return the result of a function of plain data, which may be asynchronous, as a user's action."""
        answer = self._send(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({function})({json.dumps(value)})))()",
            target={"context": self._page},
            awaitPromise=True,
            userActivation=True,
        )
        if answer["type"] == "exception":
            raise RuntimeError(answer["exceptionDetails"]["text"])
        return json.loads(answer["result"].get("value") or "null")


@contextmanager
def firefox() -> Iterator[Firefox]:
    """Run Firefox with a new profile; yield a page in it."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise SystemExit("There is no Firefox.")
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory() as profile:
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in SETTINGS.items()]
        with open(f"{profile}/user.js", "w", encoding="utf-8") as file:
            file.writelines(lines)
        command = [program, "--headless", "--remote-debugging-port", "0", "--profile", profile]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield Firefox(loop, loop.run_until_complete(_connected(Path(profile) / PORT)))
        finally:
            process.terminate()
            process.wait(60)
            loop.close()


async def _connected(port: Path) -> WebSocketClientConnection:
    """Wait until Firefox has written where it listens, and connect to it."""
    for _ in range(10 * SECONDS):
        if port.is_file() and (said := port.read_text(encoding="utf-8")):
            at = json.loads(said)
            address = f"ws://{at['ws_host']}:{at['ws_port']}/session"
            return await websocket_connect(address, max_message_size=MOST)
        await asyncio.sleep(0.1)
    raise SystemExit("Firefox did not start.")
