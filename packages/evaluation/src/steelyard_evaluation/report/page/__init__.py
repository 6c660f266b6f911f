"""The report page: document, figures, rows and templates."""
