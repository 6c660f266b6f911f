"""Parts that all engines share: addresses without passwords, identities of processes, and the log of an outlet."""
