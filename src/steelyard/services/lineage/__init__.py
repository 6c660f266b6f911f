"""Lineage: reports the runs of workflows to a receiver of OpenLineage, with what they read and write."""
