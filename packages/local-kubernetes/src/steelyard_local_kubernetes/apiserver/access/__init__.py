"""Users and their rights: authentication, roles that are acted on, and reviews of both."""
