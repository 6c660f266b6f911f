"""From verified outputs to a scored, self-contained report: rubrics, statistics, figures, pages.

Used by the step `run_report`; the command line scores through the same functions.
"""
