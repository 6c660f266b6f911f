"""The orchestrator: an entity waits until it may run, then it has a resource in Kubernetes, and then that goes again.

* `run` elects the leader and starts `leader`, which holds the tasks together;
* `claims` makes claims from state records; `observed` is what the leader knows of those that wait or hold something;
* `waiting` and `admission` decide, purely, which entity may run; `scheduler` admits it in the claims;
* `desired` says whether an entity's resource should exist; `edge` makes or deletes it, as `manifest` describes it;
* `comparison` finds, once a minute, missed changes.
"""
