"""Garbage collection as a controller, on any server: objects go after their owners."""
