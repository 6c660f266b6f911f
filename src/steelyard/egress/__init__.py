"""The guard for calls to addresses outside: hosts that the settings allow, and never an address that is not public."""
