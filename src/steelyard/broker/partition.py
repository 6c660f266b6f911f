"""The partition of a key: `murmur2_random`, as Kafka's Java client and librdkafka compute it.

A log that moves to Kafka keeps every key in the partition that it had. The function is Austin Appleby's MurmurHash2
with the seed that Kafka uses; only keys that are there are hashed here, so nothing is random.
"""

_MASK = 0xFFFFFFFF
_SEED, _M, _R = 0x9747B28C, 0x5BD1E995, 24


def murmur2(data: bytes) -> int:
    """The 32-bit hash, as a signed number like Kafka's."""
    length = len(data)
    hashed = (_SEED ^ length) & _MASK
    whole = length - length % 4
    for start in range(0, whole, 4):
        mixed = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        mixed = (mixed ^ mixed >> _R) * _M & _MASK
        hashed = (hashed * _M & _MASK) ^ mixed
    if whole < length:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed >> 31 else hashed


def find_partition(key: str, partitions: int) -> int:
    """The partition of a key, from 0."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions
