"""A headless Chromium driven over its own debugging pipe: pages, keys, sizes, themes, and what a page said, asked for or threw.

No package and no port is needed: the browser reads commands from descriptor 3 and writes answers to descriptor 4, each ended by a NUL.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--headless", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars")  # fmt: skip
WAIT_S = 60.0
KEYS = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}


def program() -> str | None:
    """The browser of this machine, or None."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Pipe:
    """Commands to the browser and its answers, in order; events are handed to the page that they are of."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._read, self._last = to, back, b"", 0
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """The result of a command; raises RuntimeError with the browser's words, or TimeoutError."""
        self._last += 1
        sent = {"id": self._last, "method": method, "params": params} | ({"sessionId": session} if session else {})
        data = json.dumps(sent).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            found = self._message(WAIT_S)
            if found is None:
                raise TimeoutError(f"{method}: no answer within {WAIT_S:.0f} s")
            if found.get("id") == self._last:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']['message']}")
                return dict(found["result"])
            self.events.append(found)

    def drain(self, seconds: float) -> None:
        """Whatever arrives within so many seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            found = self._message(left)
            if found is not None:
                self.events.append(found)

    def _message(self, seconds: float) -> dict[str, Any] | None:
        until = time.monotonic() + seconds
        while b"\0" not in self._read:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._back], [], [], left)[0]:
                return None
            block = os.read(self._back, 1 << 16)
            if not block:
                raise RuntimeError("the browser ended")
            self._read += block
        first, self._read = self._read.split(b"\0", 1)
        return dict(json.loads(first))


class Page:
    """One tab, in a profile of its own."""

    def __init__(self, pipe: Pipe, width: int, height: int, scheme: str) -> None:
        self._pipe = pipe
        context = pipe.call("Target.createBrowserContext")["browserContextId"]
        self._target = pipe.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self._session = pipe.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.media(scheme)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._pipe.call(method, self._session, **params)

    def resize(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)

    def media(self, scheme: str, kind: str = "") -> None:
        """`light` or `dark`; kind `print` for paper."""
        self.call("Emulation.setEmulatedMedia", media=kind, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def goto(self, url: str) -> None:
        """Opens it and waits until it has loaded and settled."""
        failed = self.call("Page.navigate", url=url).get("errorText")
        if failed:
            raise RuntimeError(f"{url}: {failed}")
        until = time.monotonic() + WAIT_S
        while self.run("document.readyState") != "complete" or self.run("location.href") == "about:blank":
            if time.monotonic() > until:
                raise TimeoutError(f"{url}: not loaded within {WAIT_S:.0f} s")
            self._pipe.drain(0.05)
        self._pipe.drain(0.3)

    def run(self, script: str) -> Any:
        """The value of an expression in the page; raises RuntimeError with what it threw."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return found["result"].get("value")

    def press(self, key: str, shift: bool = False) -> None:
        """One key down and up, as a keyboard gives it."""
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        code = KEYS.get(key, ord(key.upper()[0]))
        both: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **both)
        self.call("Input.dispatchKeyEvent", type="keyUp", **both)

    def type(self, text: str) -> None:
        for key in text:
            self.press(key)

    def settle(self, seconds: float = 0.3) -> None:
        self._pipe.drain(seconds)

    def tab_to(self, selector: str, most: int = 200) -> None:
        """Presses Tab until the focus is on it; raises LookupError where the keyboard does not reach it."""
        for _ in range(most):
            self.press("Tab")
            if self.run(f"document.activeElement.matches({json.dumps(selector)})"):
                return
        raise LookupError(f"{selector}: not reached with {most} tabs")

    def picture(self, path: Path, height: int | None = None, scale: float = 1.0, top: int = 0) -> None:
        """A PNG of the page, whole or so far down from `top`."""
        width, whole = self.run("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": max(0, top), "width": width, "height": min(whole, height or whole), "scale": scale}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def paper(self) -> bytes:
        """The page as a PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def complaints(self) -> list[str]:
        """What went to the console, was thrown, blocked or failed."""
        said = []
        for event in self._mine("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Network.loadingFailed"):
            params = event["params"]
            entry, thrown = params.get("entry", {}), params.get("exceptionDetails", {})
            words = [str(arg.get("value", arg.get("description"))) for arg in params.get("args", ())]
            said.append(" ".join([event["method"], *words, entry.get("text", ""), thrown.get("text", ""), params.get("errorText", "")]))
        return said

    def asked_for(self) -> list[str]:
        """Addresses of every request."""
        return [event["params"]["request"]["url"] for event in self._mine("Network.requestWillBeSent")]

    def _mine(self, *methods: str) -> Iterator[dict[str, Any]]:
        return (e for e in self._pipe.events if e.get("sessionId") == self._session and e.get("method") in methods)

    def close(self) -> None:
        self._pipe.call("Target.closeTarget", targetId=self._target)


class Browser:
    """A running browser."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    def open(self, width: int = 1280, height: int = 900, scheme: str = "light") -> Page:
        """A blank page; the caller closes it."""
        return Page(self._pipe, width, height, scheme)


@contextmanager
def browser(found: str) -> Iterator[Browser]:
    """Starts it, and ends it with all that it wrote."""
    theirs, to = os.pipe()
    back, ours = os.pipe()
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs, ours)]

    def place() -> None:
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    root = ("--no-sandbox",) if os.geteuid() == 0 else ()  # Chromium has no sandbox for root
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [found, *FLAGS, *root, f"--user-data-dir={profile}", "about:blank"]
        quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, close_fds=False, preexec_fn=place, **quiet)
        for fd in (theirs, ours, *high):
            os.close(fd)
        try:
            yield Browser(Pipe(to, back))
        finally:
            process.terminate()
            process.wait()
            os.close(to)
            os.close(back)
