"""Admission to queues, an embedded form of Kueue: jobs wait until a ClusterQueue has quota for their Pods.

`run.py` reads everything and writes; `plan.py` decides what, as one pure function.
"""
