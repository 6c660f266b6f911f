"""The server of a storage folder."""
