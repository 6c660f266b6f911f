"""The aggregator: commands become states of entities.

The modules in the order in which a command passes through them:

* `run` reads batches of commands from the log and writes what follows from them;
* `parse` makes a command from a record, or names the malformed part;
* `apply` decides what becomes of the command: applied, rejected, unchanged or seen before;
* `check` refuses a command whose preconditions the entity does not meet;
* `merge` makes the entity's new content, with the statuses that `transitions` allows;
* `messages` writes the new state and the outcome.
"""
