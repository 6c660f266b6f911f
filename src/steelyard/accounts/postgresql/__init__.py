"""The accounts database on PostgreSQL, for several API servers and orchestrators."""
