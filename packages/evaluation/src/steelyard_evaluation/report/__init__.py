"""Reports: verified outputs become scored, self-contained pages with statistics and figures.

Used by the step `run_report`; the command line scores through the same functions.
"""
