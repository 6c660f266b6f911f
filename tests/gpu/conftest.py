"""The machine that integration tests have."""

from tests.integration.conftest import machine

__all__ = ["machine"]
