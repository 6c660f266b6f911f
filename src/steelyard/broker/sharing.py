"""Rules by which a group's partitions are shared among its members, and a batch among partitions.

Both forms of the log use it.
"""

from collections.abc import Callable, Mapping, Sequence

from steelyard.broker.log import Batch, Record

Read = Callable[[int, int, int], Sequence[Record]]
"""The records of a partition from an offset on, so many at most."""


def share(members: Sequence[str], partitions: int) -> dict[int, str]:
    """Return the member that is to hold each partition."""
    ordered = sorted(members)
    return {partition: ordered[partition % len(ordered)] for partition in range(partitions)}


def gather(read: Read, starts: Mapping[int, int], limit: int) -> Batch:
    """A batch in which every partition has its share; what one does not need is the others'."""
    at = dict(starts)
    taken: list[Record] = []
    partitions = list(starts)
    while partitions and len(taken) < limit:
        more = []
        for index, partition in enumerate(partitions):
            left = limit - len(taken)
            quota = -(-left // (len(partitions) - index))
            records = read(partition, at[partition], quota) if quota else ()
            if records:
                taken += records
                at[partition] = records[-1].offset + 1
            if len(records) == quota:
                more.append(partition)
        partitions = more
    moved = [partition for partition in starts if at[partition] != starts[partition]]
    return Batch(
        taken,
        {partition: starts[partition] for partition in moved},
        {partition: at[partition] for partition in moved},
    )
