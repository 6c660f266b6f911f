"""The migrations, each a step from one revision of the schema to the next."""
