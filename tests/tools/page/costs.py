"""What a continuation costs the processor in a page without a server: python -m tests.tools.page.costs --site FOLDER.

`musicgen page FOLDER` wrote the folder. A user continues an example with the default settings; the profiler of Chromium
samples the worker and the page. Prints the seconds in Python, numpy, the kernel, and what passes values between them.
"""

import base64
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Page, sync_playwright

from app.web.offered_models import EXAMPLES
from tests.app.web.browser import OPTIONS, chromium
from tests.app.web.hands import open_example
from tests.app.web.sites import served
from tests.tools.options import options
from tests.tools.page.speed import click, opened

KERNEL = Path(__file__).parents[3] / "musicgen/kernel/kernel.wasm"
MICROSECONDS = 500  # between two samples
WAITS = "(idle)"
Ask = Callable[..., dict[str, Any]]


def of_worker(page: Page, session: CDPSession) -> Ask:
    """Return what asks the worker of a page, whose messages go through the page's."""
    found, answers = [], {}

    def come(event: dict[str, Any]) -> None:
        said = json.loads(event["message"])
        answers[said.get("id")] = said.get("result")

    session.on("Target.attachedToTarget", lambda event: found.append(event))
    session.on("Target.receivedMessageFromTarget", come)
    session.send("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": False})
    [target] = (one["sessionId"] for one in found if one["targetInfo"]["type"] == "worker")

    def ask(method: str, **values: Any) -> dict[str, Any]:
        number = len(answers) + 1
        message = json.dumps({"id": number, "method": method, "params": values})
        session.send("Target.sendMessageToTarget", {"sessionId": target, "message": message})
        while number not in answers:
            page.wait_for_timeout(20)
        return answers[number]

    return ask


def begin(ask: Ask) -> None:
    """Start the profiler of a thread."""
    ask("Profiler.enable")
    ask("Profiler.setSamplingInterval", interval=MICROSECONDS)
    ask("Profiler.start")


def seconds(ask: Ask, part_of: Callable[[dict[str, Any]], str]) -> Counter[str]:
    """Stop the profiler of a thread; return its seconds by part."""
    profile = ask("Profiler.stop")["profile"]
    parts = {node["id"]: part_of(node["callFrame"]) for node in profile["nodes"]}
    spent: Counter[str] = Counter()
    for node, passed in zip(profile["samples"], profile["timeDeltas"], strict=True):
        spent[parts[node]] += passed / 1e6
    return spent


def parts_of(ask: Ask) -> Callable[[dict[str, Any]], str]:
    """Return what names the part that a function of the worker belongs to."""
    kernel, known = KERNEL.read_bytes(), {}

    def program(script: str) -> str:
        ask("Debugger.enable")  # after the measurement: programs run slowly from then on
        code = ask("Debugger.getScriptSource", scriptId=script).get("bytecode", "")
        return "the kernel" if base64.b64decode(code) == kernel else "numpy"

    def part(frame: dict[str, Any]) -> str:
        name, address, script = frame["functionName"], frame["url"], frame["scriptId"]
        if address.endswith("pyodide.asm.wasm"):
            return "Python"
        if address.startswith("wasm:"):
            if script not in known:
                known[script] = program(script)
            return known[script]
        if name in {WAITS, "(garbage collector)"}:
            return name
        return "between them, and to the page"

    return part


def main() -> None:
    """Measure and print."""
    given = options(__doc__, site="build/page", example="trio-jazz")
    with served(Path(given.site)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=OPTIONS)
        page, _ = opened(browser, address)
        open_example(page, given.example)
        page.wait_for_timeout(1000)  # the prompt is read
        session = page.context.new_cdp_session(page)
        worker = of_worker(page, session)

        def desk(method: str, **values: Any) -> dict[str, Any]:
            return session.send(method, values)

        for one in (worker, desk):
            begin(one)
        first, speed, _ = click(page, whole=True)
        page_spent = seconds(
            desk,
            lambda frame: WAITS if frame["functionName"] in {WAITS, "(program)"} else "the page",
        )
        spent = seconds(worker, parts_of(worker))
        browser.close()
    spent["the page’s own thread"] = page_spent["the page"]
    waited = spent.pop(WAITS, 0)
    whole = sum(spent.values())
    title = EXAMPLES[given.example]
    print(f"{title}: first note {first:.2f} s, {speed:.1f} × real time, {waited:.2f} s idle")
    for what, passed in spent.most_common():
        print(f"{what:<32}{passed:8.2f} s{passed / whole:8.0%}")


if __name__ == "__main__":
    main()
