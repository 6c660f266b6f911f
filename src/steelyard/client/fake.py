"""Earlier name of `steelyard.testing.platform`, kept for programs that import it."""

from steelyard.testing.platform import FakePlatform, lost

__all__ = ["FakePlatform", "lost"]
