"""SQLite for several tasks and processes at once: one writing thread with group commit, readers, news of changes."""

from steelyard.sqlite.database import Database
from steelyard.sqlite.file import DatabaseError, StatementError, WrongSchema

__all__ = ["Database", "DatabaseError", "StatementError", "WrongSchema"]
