"""Other people's programs, the newest and the oldest that we name, read what a platform gives them.

DuckDB reads tables, mlcroissant descriptions of datasets, promtool figures and rules, Svix signatures of webhooks.
"""
