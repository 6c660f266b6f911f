"""Runner kinds: programs that serve a model, each described by a module of its own and listed in `table.py`.

A module says what its program can serve, by which command, when it is ready, how much memory it needs and how its
environment is installed. Pure: the operator makes Pods of it, `local/serving` processes, `local/runners` environments.
"""
