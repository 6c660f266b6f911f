"""A store that dies at a chosen write, as its process would: for tests of what survives."""

from steelyard_evaluation.storage.objects import ObjectStore


class Crash(Exception):
    """The process is gone."""


class CrashingStore(ObjectStore):
    """An in-memory store whose process ends at the `at`-th write (from 0): before it, or right after it."""

    def __init__(self, url: str, at: int, *, after: bool) -> None:
        super().__init__(url)
        self._left = at
        self._after = after
        self.dead = False
        self.writes: list[str] = []

    async def put(self, key: str, data: bytes) -> None:
        if key.endswith("progress.json"):
            return  # lost without harm, and written whenever
        self._before(key)
        await super().put(key, data)
        self._wrote()

    async def create(self, key: str, data: bytes) -> None:
        if "/probe/" in key:
            return await super().create(key, data)
        self._before(key)
        await super().create(key, data)
        return self._wrote()

    def _before(self, key: str) -> None:
        if self.dead:
            raise Crash
        if self._left == 0 and not self._after:
            self.dead = True
            raise Crash
        self.writes.append(key)

    def _wrote(self) -> None:
        self._left -= 1
        if self._left < 0 and self._after:
            self.dead = True
            raise Crash
