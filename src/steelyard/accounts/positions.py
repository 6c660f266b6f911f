"""The topics whose positions the outbox and the claims hold, in the names that the log gives them."""

EVENTS, STATE = "workflows.events", "workflows.state"
