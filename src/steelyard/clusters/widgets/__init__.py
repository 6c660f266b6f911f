"""Panels of clusters, jobs and queues: widgets in a notebook that has ipywidgets, HTML in others, text elsewhere.

from steelyard.clusters import widgets
widgets.panel(client)
"""

from steelyard.clusters.widgets.panel import Panel
from steelyard.clusters.widgets.panels import job_logs, job_panel, panel, queue_panel

__all__ = ["Panel", "job_logs", "job_panel", "panel", "queue_panel"]
