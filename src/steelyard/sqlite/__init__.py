"""SQLite for several tasks and processes at once: one writing thread with group commit, readers, news of changes."""

from steelyard.sqlite.database import Database
from steelyard.sqlite.file import Damaged, DatabaseError, NewerSchema, StatementError, WrongSchema

__all__ = ["Damaged", "Database", "DatabaseError", "NewerSchema", "StatementError", "WrongSchema"]
