"""The algorithms that come with the package.

Pure. The entries stand beside this file, by family; `algorithm_facts.py` says what an entry has. To add an algorithm,
write its entry there, and its name here.
"""

from __future__ import annotations

from testbed.catalogue.adpsgd import ADPSGD, ADPSGD_PUSHPULL
from testbed.catalogue.exchanges import Exchange
from testbed.catalogue.fragmented import DIVSHARE, MOSAIC, SHATTER
from testbed.catalogue.gossip import GOSSIP
from testbed.catalogue.in_turns import PLEXUS, TELEPORTATION
from testbed.catalogue.options import Values
from testbed.catalogue.served import FEDAVG, PARAMETER_SERVER
from testbed.catalogue.swift import SWIFT, SWIFT_RANDOM
from testbed.catalogue.synchronous import DPSGD, EPIDEMIC
from testbed.catalogue.tables import by_name

DEFAULT_ALGORITHM = "dpsgd"
ALGORITHMS = by_name(
    DPSGD,
    EPIDEMIC,
    MOSAIC,
    SHATTER,
    DIVSHARE,
    ADPSGD,
    ADPSGD_PUSHPULL,
    SWIFT,
    SWIFT_RANDOM,
    GOSSIP,
    TELEPORTATION,
    PLEXUS,
    FEDAVG,
    PARAMETER_SERVER,
)


def exchange_of(name: str, options: Values) -> Exchange | None:
    """What a round of an algorithm is like; None for code that is not in the table."""
    facts = ALGORITHMS.get(name)
    return None if facts is None else facts.exchange(options)


def has_same_neighbours(name: str) -> bool:
    """Whether an algorithm's overlay is the same in every round, and known to all nodes; not of code outside."""
    return name in ALGORITHMS and ALGORITHMS[name].same_neighbours
