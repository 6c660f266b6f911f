"""What all tests share: collected modules are kept out of garbage collection, which would read them again and again."""

import gc

GENERATIONS = (100_000, 50, 50)


def pytest_collection_finish() -> None:
    """Freeze what was imported: it saves a sixth of the unit suite's processor time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GENERATIONS)
