"""The log in Apache Kafka, for several machines.

Its parts: `address` reads the address, `cluster` asks and changes the cluster, `writing` appends records, `tail` reads
partitions in a thread of its own for `copies` (the newest record of each key) and `cursor` (records in order), `inbox`
is a member of a consumer group, and `log` puts them together.
"""
