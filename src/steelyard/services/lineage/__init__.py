"""Lineage: the runs of workflows are told to a receiver of OpenLineage, with what they read and write."""
