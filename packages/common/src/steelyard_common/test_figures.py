"""Figures that are looked up on request."""

import asyncio

import pytest
from prometheus_client import Gauge

from steelyard_common import figures as module
from steelyard_common.figures import Figures


async def test_an_engine_that_is_away_hides_no_other_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_UP_SECONDS", 0.01)
    figures = Figures()
    rows = Gauge("rows", "Rows.", registry=figures.registry)

    async def known() -> None:
        rows.set(7)

    async def refused() -> None:
        raise OSError("connection refused")

    figures.look_up("known", known)
    figures.look_up("refused", refused)
    figures.look_up("slow", asyncio.Event().wait)  # type: ignore[arg-type]
    text = (await figures.text()).decode()
    assert "rows 7.0" in text
    for name, number in {"known": "0.0", "refused": "1.0", "slow": "1.0"}.items():
        assert f'steelyard_metrics_lookup_failures_total{{figure="{name}"}} {number}' in text


async def test_many_who_ask_at_once_are_one_question_to_the_engines() -> None:
    figures, asked = Figures(), list[int]()

    async def look() -> None:
        asked.append(1)
        await asyncio.sleep(0)

    figures.look_up("rows", look)
    await asyncio.gather(*(figures.text() for _ in range(5)))
    assert len(asked) == 1
