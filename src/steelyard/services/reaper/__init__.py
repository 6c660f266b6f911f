"""The reaper: what has been deleted, expired or left over is removed."""
