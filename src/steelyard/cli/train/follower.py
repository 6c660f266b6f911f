"""Shows a followed job on a screen: its lines, what happens to it, and how far it is."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC, datetime

from steelyard.cli.train import wording
from steelyard.cli.train.screen import Plain, Screen
from steelyard.clusters.training.following import Changed, Event, PodsChanged, Warned
from steelyard.clusters.training.logs import Line
from steelyard.clusters.training.progress import MARK, Pace, Progress, parse
from steelyard.clusters.training.view import JobView
from steelyard_common.types import Json
from steelyard_kube.times import parse_optional_time

TICK_SECONDS = 0.2
UNSEEN_SECONDS = 15.0
"""Seconds after which a notice says that no operator has taken up the job."""


class Follower:
    """A followed job and its display. `raw`: progress reports are shown only as the lines that they are."""

    def __init__(self, screen: Screen, job: JobView, *, raw: bool = False) -> None:
        self.job = job
        self.stopping = False  # by this command, which says so itself
        self._screen, self._raw = screen, raw
        self._reports: dict[str, Progress] = {}
        self._paces: dict[str, Pace] = {}
        self._said: set[str] = set()
        self._began = time.monotonic()
        self._failures = len(job.failures)
        self._running = job.state == "Running"
        if isinstance(screen, Plain):
            screen.prefixes.expect([replica.name for replica in job.replicas])

    async def run(self, events: AsyncGenerator[Event, None]) -> JobView:
        """Show all events; return the job as it was at the end."""
        ticks = asyncio.create_task(self._tick())
        try:
            # An async generator that is left is closed at some later time; its watches would stay open until
            # then.
            async with aclosing(events):
                async for event in events:
                    self.see(event)
        finally:
            ticks.cancel()
        return self.job

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.tick()

    def see(self, event: Event) -> None:
        match event:
            case Line():
                self._line(event)
            case Changed(job):
                self._note_change(job)
            case PodsChanged(pods):
                for said in wording.waiting(pods):
                    self._once(said)
            case Warned(message):
                self._once(f"{wording.full_name(self.job)} waits: {message}")
        self.tick()

    def tick(self) -> None:
        """Draw how far it is; time goes on without events, too."""
        if self.job.state == "New" and time.monotonic() - self._began > UNSEEN_SECONDS:
            self._once("no operator has taken up the job yet; does one run on this cluster?")
        if self._raw:
            return
        leader = next((replica.name for replica in self.job.replicas if replica.name in self._reports), "")
        progress, pace = self._reports.get(leader), self._paces.get(leader, Pace())
        if self.job.state == "Suspended":
            progress = None  # what it was when it was stopped
        text = wording.status_line(self.job, progress, pace, datetime.now(UTC))
        self._screen.status(text, self._values(progress, pace))

    def _values(self, progress: Progress | None, pace: Pace) -> Json:
        said: Json = {"state": self.job.state, "running": self.job.running, "restarts": self.job.restarts}
        if progress:
            said["progress"] = {
                "values": dict(progress.values),
                "share": progress.share,
                "secondsLeft": pace.seconds_left,
            }
        return said

    def _line(self, line: Line) -> None:
        report = parse(line.text)
        if report:
            self._reports[line.replica] = report
            when = parse_optional_time(line.time)
            if when and report.share is not None:
                self._paces.setdefault(line.replica, Pace()).see(when, report.share)
        text = line.text if not report or self._raw else line.text.partition(MARK)[0].rstrip()
        if text or not report:  # a report may follow text without an end of line
            self._screen.line(line.replica, text, line.time)

    def _note_change(self, job: JobView) -> None:
        before, self.job = self.job, job
        for failure in job.failures[self._failures :]:
            if not failure.consequence and not job.finished:
                self._screen.say(wording.goes_on(before, job, failure, datetime.now(UTC)), bad=True)
        self._failures = len(job.failures)
        if job.state == "Running" and not self._running:
            self._running = True
            self._screen.say(f"{wording.full_name(job)} is running: {wording.replicas(job)}")
        if job.state in {"Suspended", "Restarting"}:
            self._paces.clear()
        if job.state == "Suspended" != before.state and not self.stopping:
            self._screen.say(f"{wording.full_name(job)} is stopped")
        if before.state == "Suspended" != job.state and not job.finished:
            self._screen.say(f"{wording.full_name(job)} goes on")

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._screen.say(text, bad=True)
