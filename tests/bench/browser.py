"""Chromium without a window, told by the DevTools protocol what to open and asked what it did."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NEEDS = "needs chromium, chromedriver (Debian: chromium, chromium-driver) and selenium"


class Browser:
    """A browser with one page.

    Attributes:
        driver: Selenium's.
    """

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, *, dark: bool = False, width: int = 1100) -> None:
        """Open a file, in a window of this many px, as a reader who likes it dark or light."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", features=[scheme])
        self.tell("Emulation.setDeviceMetricsOverride",
                  width=width, height=900, deviceScaleFactor=1, mobile=False)  # fmt: skip
        self.logged()
        self.driver.get(path.as_uri())
        self.settle()

    def tell(self, command: str, **arguments: Any) -> Any:
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(command, arguments)

    def run(self, script: str, *arguments: object) -> Any:
        """What a script answers; in texts any blank is a plain one."""
        found = self.driver.execute_script(script, *arguments)
        return found.replace("\xa0", " ") if isinstance(found, str) else found

    def settle(self) -> None:
        """Wait until all that was to be drawn is drawn."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )

    def press(self, key: str, *, shift: bool = False) -> None:
        """A key of the keyboard, by its name in DOM events, as ``Tab`` or ``ArrowRight``."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27, "End": 35, "Home": 36,
                 "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}  # fmt: skip
        event = {"key": key, "code": "Space" if key == " " else key, "modifiers": 8 * shift}
        if key in codes:
            event["windowsVirtualKeyCode"] = codes[key]
        text = {"Enter": "\r", " ": " "}.get(key, key if len(key) == 1 else "")
        down = {**event, "type": "keyDown", **({"text": text} if text else {})}
        self.tell("Input.dispatchKeyEvent", **down)
        self.tell("Input.dispatchKeyEvent", **{**event, "type": "keyUp"})

    def picture(self, selector: str | None = None, margin: int = 0) -> bytes:
        """A PNG of an element, or of the window."""
        clip = {}
        if selector is not None:
            box = self.run(
                "const box = document.querySelector(arguments[0]).getBoundingClientRect();"
                "return [box.x + scrollX, box.y + scrollY, box.width, box.height]",
                selector,
            )
            x, y, width, height = box
            clip = {"clip": {"x": x - margin, "y": y - margin, "width": width + 2 * margin,
                             "height": height + 2 * margin, "scale": 1}}  # fmt: skip
        shot = self.tell("Page.captureScreenshot", captureBeyondViewport=True, **clip)
        return base64.b64decode(shot["data"])

    def logged(self) -> tuple[list[str], list[str]]:
        """Messages of the console, and addresses that were asked for, since it was called last."""
        console = [entry["message"] for entry in self.driver.get_log("browser")]
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        asked = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return console, asked


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    webdriver = pytest.importorskip("selenium.webdriver", reason=NEEDS)
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip(NEEDS)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # As root, and in a container, there is no sandbox and little shared memory.
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--hide-scrollbars", "--force-color-profile=srgb"):  # fmt: skip
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()
