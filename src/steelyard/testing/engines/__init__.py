"""Contract suites of the engines: what every log, view, accounts database and object store must do.

Each module holds `CASES`: functions by name; each uses one fresh engine. The author of an engine runs every case on
it; docs/testing.md shows how. The cases need no test framework.

* `log`, `log_groups`: the event log, and its consumer groups;
* `view`, `view_sink`: queries of the entity view, and what the view sink writes to it;
* `accounts`, `claims`, `outbox`, `secrets`, `webhooks`: the parts of the accounts database;
* `store`: the object store.
"""
