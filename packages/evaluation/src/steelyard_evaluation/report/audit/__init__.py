"""Audits: a procedure's reports compared with an earlier audit, on one page."""
