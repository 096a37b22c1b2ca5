"""A real headless Chromium for the page tests, and what it paints as pixels."""

from __future__ import annotations

import os
import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from selenium import webdriver

_NEEDED = "needs Debian's chromium and chromium-driver: apt-get install chromium chromium-driver"


@contextmanager
def chromium(*, dark: bool = False) -> Iterator[webdriver.Chrome]:
    """Start a browser and end it; without one the test is skipped, but never where CI is set."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        if os.environ.get("CI"):
            pytest.fail(_NEEDED)
        pytest.skip(_NEEDED)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    # --no-sandbox: Chromium refuses to start as root with one, and CI containers run as root
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        running.set_window_size(1280, 1000)
        if dark:
            running.execute_cdp_cmd(
                "Emulation.setEmulatedMedia",
                {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
            )
        yield running
    finally:
        running.quit()


def pixels(png: bytes) -> np.ndarray:
    """Decode an 8-bit RGB or RGBA image into rows of red, green, blue (PNG, section 9: filters)."""
    at, data, width, height, channels = 8, b"", 0, 0, 0
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8
            channels = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    raw = np.frombuffer(zlib.decompress(data), dtype=np.uint8).reshape(height, -1)
    rows = np.zeros((height + 1, width, channels), dtype=np.int32)
    for y in range(height):
        line = raw[y, 1:].reshape(width, channels).astype(np.int32)
        rows[y + 1] = _unfiltered(int(raw[y, 0]), line, rows[y])
    return rows[1:, :, :3]


def _unfiltered(kind: int, line: np.ndarray, above: np.ndarray) -> np.ndarray:
    if kind == 0:
        return line
    if kind == 1:
        return np.asarray(np.cumsum(line, axis=0) % 256)
    if kind == 2:
        return np.asarray((line + above) % 256)
    out, zero = line.copy(), np.zeros(line.shape[1], dtype=np.int32)
    for x in range(len(line)):
        left, up = (out[x - 1] if x else zero), above[x]
        corner = above[x - 1] if x else zero
        if kind == 3:
            guess = (left + up) // 2
        else:
            base = left + up - corner
            by = [np.abs(base - left), np.abs(base - up), np.abs(base - corner)]
            first = (by[0] <= by[1]) & (by[0] <= by[2])
            guess = np.where(first, left, np.where(by[1] <= by[2], up, corner))
        out[x] = (line[x] + guess) % 256
    return out
