"""A Chromium without a window, driven over a pipe: no port, no package."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.trouble import DEADLINE

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe"),
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find() -> str | None:
    """The browser's path, from the environment's DOMADAPT_CHROMIUM or the usual names."""
    return os.environ.get("DOMADAPT_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    """One page in one browser, spoken to in the DevTools protocol: JSON objects that end with a zero byte."""

    def __init__(self, browser: str, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        def place() -> None:  # the browser reads from 3 and writes to 4
            copies = os.dup(theirs_in), os.dup(theirs_out)
            os.dup2(copies[0], 3)
            os.dup2(copies[1], 4)

        self._process = subprocess.Popen(
            [browser, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=place,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._reader = os.fdopen(self._in, "rb")
        self._rest, self._count, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call and wait for the answer; what happens meanwhile is kept in ``events``."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._count:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def visit(self, url: str, width: int, dark: bool) -> None:
        """Show an address at a width in pixels."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        self.events.clear()
        self.call("Page.navigate", url=url)
        self._loaded()

    def submit(self, expression: str) -> None:
        """Evaluate what makes the browser go to another page, and wait until it is there."""
        self.events.clear()
        self.evaluate(expression)
        self._loaded()

    def _loaded(self) -> None:
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Errors and warnings of the console and of the browser since the page was opened."""
        found = [e for e in self.events if e.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown")]
        entries = [e["params"]["entry"] for e in self.events if e.get("method") == "Log.entryAdded"]
        return [*map(str, found), *(str(e) for e in entries if e["level"] in ("warning", "error"))]

    def close(self) -> None:
        """End the browser."""
        self._session = ""
        try:
            self.call("Browser.close")
            self._process.wait(DEADLINE)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.close()
            os.close(self._out)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        found: dict[str, Any] = json.loads(message)
        return found
