"""The operator as it runs (`operator/main.py`, its informers, queue, lease and events), twice, in a scenario.

All that the scenario knows may happen, with slow and broken calls, broken watches and crashes; then it is quiet, and
all must end where it should.

The exhaustive search in `operator/simulation/` drives one reconciliation after the other over caches of its own; here
everything overlaps as it does in a cluster. Time is virtual and chance has a seed: each run can be repeated.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Protocol

from steelyard.operator.edge import Key
from steelyard.operator.main import Operator, run_operator
from steelyard.operator.settings import OperatorSettings
from steelyard.operator.simulation.exploration import Actor, Move
from steelyard.operator.simulation.simulator import BEGIN, Simulator, State
from steelyard_kube.leader import Candidate, LeaseLost
from tests.exploration.unreliable import Network, UnreliableCluster

MOVES = 40
"""Moves of the surroundings in one run, most of them ordinary."""
MISHAPS = 4
"""Faults that the surroundings make in one run, besides the network's."""
STEP_SECONDS = 4.0
QUIET_SECONDS = 4 * 3600.0
STILL_SECONDS = 120.0
"""Time without a change after which a run is at its end."""


class LiveScenario(Protocol):
    """Part of a scenario that a run needs."""

    name: str

    @property
    def key(self) -> Key: ...

    def set_up(self, simulator: Simulator) -> None: ...

    def moves(self, simulator: Simulator) -> list[Move]: ...

    def progress(self, simulator: Simulator) -> bool: ...

    def fault(self, before: State, simulator: Simulator, actor: Actor) -> str: ...

    def end_fault(self, simulator: Simulator) -> str: ...


class LoopClock:
    """The loop's time, as the lease and the operator read it."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.monotonic())

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Process:
    """One operator, started again after each crash and each lost lease, as a Deployment does."""

    def __init__(self, run: "Run", name: str, elected: bool) -> None:
        self._run = run
        self._name = name
        self._elected = elected
        self._starts = 0

    async def live(self) -> None:
        while True:
            self._starts += 1
            died = asyncio.Event()
            cluster = UnreliableCluster(
                self._run.simulator.cluster, self._run.network, self._run.write, died.set
            )
            work = asyncio.ensure_future(self._work(cluster))
            death = asyncio.ensure_future(died.wait())
            try:
                await asyncio.wait([work, death], return_when=asyncio.FIRST_COMPLETED)
            finally:
                cluster.dead = True
                for task in (work, death):
                    task.cancel()
                await asyncio.gather(work, death, return_exceptions=True)
            await asyncio.sleep(self._run.rng.uniform(0.1, 20))

    async def _work(self, cluster: UnreliableCluster) -> None:
        clock = LoopClock()
        if not self._elected:
            await Operator(cluster, self._run.settings, clock.now, rng=self._run.rng).work()
        candidate = Candidate(f"{self._name}-{self._starts}", clock, rng=self._run.rng)
        try:
            await run_operator(cluster, self._run.settings, candidate=candidate, stop=asyncio.Event())
        except LeaseLost:
            return


class Run:
    """One life of one resource; the seed decides everything."""

    def __init__(self, scenario: LiveScenario, seed: int, faults: int, settings: OperatorSettings) -> None:
        self.rng = Random(seed)
        self.happened: Counter[str] = Counter()
        self.network = Network(self.rng, faults, self.happened)
        self.simulator = Simulator(scenario.key)
        self.settings = settings
        self._scenario = scenario
        self._mishaps = MISHAPS
        self.path: list[str] = []
        self._wrong: list[str] = []

    async def run(self) -> None:
        """Raises AssertionError, with what happened, when something is wrong."""
        self.simulator.store.now = LoopClock().now
        self._scenario.set_up(self.simulator)
        rivals = self.rng.random() < 0.3
        processes = [Process(self, name, elected=not rivals) for name in ("one", "two")]
        tasks = [asyncio.ensure_future(process.live()) for process in processes]
        try:
            await self._befall()
            self.network.faults = 0
            await self._quiet()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def write(self, effect: Callable[[], None]) -> None:
        """Let an operator's call have its effect, and check what it changed."""
        before, version = self.simulator.save(), self.simulator.store.version
        effect()
        if self.simulator.store.version != version:
            self._check(before, "late operator", "operator writes")

    async def _befall(self) -> None:
        for _ in range(MOVES):
            await asyncio.sleep(self.rng.expovariate(1 / STEP_SECONDS))
            self._now()
            if self.network.fault("the API server drops all watches", 30):
                self.simulator.cluster.end_watches()
            if self.network.fault("the API server forgets its history", 60):
                self.simulator.store.compact()
            self._move()
            self._fail_if_wrong()

    def _move(self) -> None:
        moves = self._scenario.moves(self.simulator)
        mishap = self.rng.random() < 0.25 and self._mishaps > 0
        choices = [move for move in moves if (move.cost > 0) == mishap]
        if not choices:
            return
        name = self.rng.choice(sorted({move.name for move in choices}))
        self._take(self.rng.choice([move for move in choices if move.name == name]))

    def _take(self, move: Move) -> None:
        before = self.simulator.save()
        self._mishaps -= move.cost
        self.happened[move.name] += 1
        self.path.append(f"{asyncio.get_running_loop().time():.0f} s {move.name}")
        move.run(self.simulator)
        self._check(before, "surroundings", move.name)

    async def _quiet(self) -> None:
        """Check that without further faults everything goes on, and comes to rest where it should."""
        loop = asyncio.get_running_loop()
        deadline, since, version = loop.time() + QUIET_SECONDS, loop.time(), -1
        while loop.time() < deadline:
            await asyncio.sleep(2.0)
            self._now()
            self._fail_if_wrong()
            moved = self.simulator.cluster.collect() or self._scenario.progress(self.simulator)
            content = hash(self._content())
            if moved or content != version:
                since, version = loop.time(), content
            if loop.time() - since > STILL_SECONDS and not self._scenario.end_fault(self.simulator):
                return
        self._fail(f"it never came to a good end: {self._scenario.end_fault(self.simulator)}")

    def _content(self) -> frozenset[object]:
        leave_out = {"events", "leases"}
        objects = self.simulator.store.snapshot().content
        return frozenset(entry for entry in objects if entry[0].resource.plural not in leave_out)

    def _now(self) -> None:
        self.simulator.now = LoopClock().now()
        if self.simulator.now - BEGIN > timedelta(seconds=1000):
            self.simulator.fact("late")

    def _check(self, before: State, actor: Actor, what: str) -> None:
        if fault := self._scenario.fault(before, self.simulator, actor):
            self._wrong.append(f"{fault} ({what})")

    def _fail_if_wrong(self) -> None:
        if self._wrong:
            self._fail(self._wrong[0])

    def _fail(self, fault: str) -> None:
        objects = "\n".join(
            f"  {obj['kind']} {obj['metadata']['name']} {obj.get('status', '')}"
            for obj in self.simulator.store.objects()
            if obj["kind"] not in {"Event", "Lease"}
        )
        facts = ", ".join(sorted(self.simulator.facts))
        raise AssertionError(
            f"{self._scenario.name}: {fault}\n{' → '.join(self.path)}\nfacts: {facts}\n"
            f"network: {dict(self.happened)}\n{objects}"
        )
