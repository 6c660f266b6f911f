"""Opens pages in Chromium, light and dark, wide and narrow: axe-core finds nothing, nothing is asked of any network, no
script is refused, nothing sticks out, rows can be searched, and a print shows what can be opened. Run by `suite` in an
environment of its own.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import axe_playwright_python  # type: ignore[import-not-found]
from playwright.sync_api import Browser, Page, sync_playwright  # type: ignore[import-not-found]

AXE = next(Path(axe_playwright_python.__file__).parent.rglob("axe.min.js")).read_text("utf-8")
PATIENCE = 240_000
"""Milliseconds that Chromium has for each step: a machine that has other work is slow."""
SIZES = {"wide": (1300, 900), "narrow": (390, 844)}
SLOW_SECONDS = 3.0
"""A page that takes longer to stand there, or to be searched, freezes for people."""
TRIES = 12
"""A machine that has other work is slow, too: the quickest of so many counts."""


def main(chromium: str, *paths: str) -> int:
    faults: list[str] = []
    checks = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"], timeout=PATIENCE
        )
        for path in map(Path, paths):
            for scheme in ("light", "dark"):
                for size in SIZES:
                    seen = look(browser, path, scheme, size)
                    checks += 1
                    faults += [f"{path.parent.name}/{path.name}, {scheme}, {size}: {fault}" for fault in seen]
        browser.close()
    for fault in faults:
        print(fault)
    print(f"{checks} views of {len(paths)} pages, {len(faults)} faults")
    return 1 if faults or not checks else 0


def look(browser: Browser, path: Path, scheme: Any, size: str) -> list[str]:
    """The faults of one view of a page."""
    width, height = SIZES[size]
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    requests: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))

    def visit() -> float:
        began = time.monotonic()
        page.goto(path.as_uri())
        return time.monotonic() - began

    seconds = quickest(visit)
    faults = [f"took {seconds:.1f} s to open"] * (seconds > SLOW_SECONDS)
    faults += [f"asks for {url}" for url in requests if url != path.as_uri()]
    if page.locator("#rows-search").count():
        faults += search(page)
    faults += printed(page)
    for details in page.locator("details").all()[:6]:
        details.evaluate("each => { each.open = true }")
    page.wait_for_timeout(100)
    over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    faults += [f"is {over} pixels too wide"] * (over > 0)
    faults += violations(page)
    faults += [f"says {text}" for text in said]
    context.close()
    return faults


def printed(page: Page) -> list[str]:
    """Say what a printed page lacks: parts behind a summary, which cannot be opened on paper; or shows: tools."""
    page.emulate_media(media="print")
    closed = page.evaluate(
        """() => [...document.querySelectorAll("figure details, details.rest")].filter(details =>
            ![...details.children].slice(1).some(child => child.checkVisibility() && child.offsetHeight > 0)
        ).length"""
    )
    tools = page.evaluate(
        """() => [...document.querySelectorAll("nav, #rows-tool, .on-screen")].filter(tool => tool.checkVisibility())
            .length"""
    )
    page.emulate_media(media="screen")
    return [f"hides {closed} parts on paper"] * (closed > 0) + [f"prints {tools} tools"] * (tools > 0)


def quickest(seconds: Callable[[], float]) -> float:
    """Do something that tells how many seconds it took, again while it was slow; return the fewest."""
    least = float("inf")
    for _ in range(TRIES):
        least = min(least, seconds())
        if least <= SLOW_SECONDS:
            break
    return least


def search(page: Page) -> list[str]:
    """A row that is found by its number, and its visible parts."""
    before = page.locator("#rows-found").inner_text()

    def is_shown(sign: str) -> None:
        page.wait_for_function(
            f"before => document.getElementById('rows-found').textContent {sign} before", arg=before
        )

    def find() -> float:
        page.fill("#rows-search", "")
        is_shown("===")
        began = time.monotonic()
        page.fill("#rows-search", "row 4")
        is_shown("!==")
        return time.monotonic() - began

    seconds = quickest(find)
    first = page.locator("#rows-list details").first
    first.locator("summary").click()
    first.locator(".whole").wait_for()
    text = first.inner_text()
    faults = [f"took {seconds:.1f} s to search"] * (seconds > SLOW_SECONDS)
    if "row 4" not in text.lower() or "asked" not in text.lower():
        faults.append(f"search shows {text[:80]!r}")
    page.fill("#rows-search", "")
    is_shown("===")
    return faults


def violations(page: Page) -> list[str]:
    # By way of the debugger: the page's own policy allows no script but its own.
    page.evaluate(AXE)
    report = page.evaluate("async () => (await axe.run(document)).violations")
    return [
        f"axe {violation['id']}: {violation['help']}: {node['html'][:120]} {node['failureSummary'][-160:]}"
        for violation in report
        for node in violation["nodes"][:3]
    ]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
