"""Draw docs/images/page.png: the page that `maar demo` serves, in the middle of its story.

    python tools/page_picture.py [FILE]

`make screenshot` runs it. It plays the first acts, until a node dies, and takes a picture of the cluster with the
browser that the tests use (`make browser`). Nothing in the picture is made up: it is what `maar web` serves then.
"""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from playwright.async_api import async_playwright, expect

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.page.browser import MISSING, arguments, executable

from maar.demo.box import Box
from maar.demo.story import Story

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "page.png"
PATIENCE = 120_000.0
"""Milliseconds for each step, far more than it takes."""


async def picture(url: str, file: Path) -> None:
    """Wait until the page shows a failed node, and take the picture."""
    path = executable()
    if path is None:
        raise SystemExit(MISSING)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=arguments())
        page = await browser.new_page(viewport={"width": 1200, "height": 900}, color_scheme="light")
        page.set_default_timeout(PATIENCE)
        await page.goto(url)
        failed = page.get_by_role("button", name=re.compile("1 failed"))
        await expect(failed).to_be_visible(timeout=PATIENCE)
        await page.wait_for_timeout(1500)  # the totals follow the grid
        await page.screenshot(path=str(file))
        await browser.close()


async def main(file: Path) -> None:
    box = Box()
    telling = None
    try:
        await box.open(page=True)
        story = Story(box, lambda line: None, 1.0)
        await story.fill()
        if not await box.page.serving():
            raise SystemExit(f"maar web has not started: {box.page.ended}")
        shot = asyncio.create_task(picture(box.page.address, file))
        telling = asyncio.create_task(_tell(story))
        await asyncio.wait((shot, telling), return_when=asyncio.FIRST_COMPLETED)
        await shot
    finally:
        if telling is not None:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        await box.close()
    print(f"wrote {file}")


async def _tell(story: Story) -> None:
    await story.make_room()
    await story.lose_a_node()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE))
