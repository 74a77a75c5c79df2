"""A network brought up only to be measured: a fabric and a probe process for every node needed.

Takes a configuration and ranks, gives a `Running`; starts processes and leaves none behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from testbed.engines.attach import NodeNetwork
from testbed.engines.fabric.config import FabricConfig
from testbed.engines.fabric.start import FabricConversation, start_fabric
from testbed.engines.namespace import TcpSettings
from testbed.protocol.fabric import FabricStatus, GetStatus, Watch
from testbed.verify.probe_processes import ProbeNodes, new_node
from testbed.verify.probe_protocol import AnyAnswer
from testbed.verify.work_folder import WorkFolder

FIRST_PORT = 20_000
PATIENCE_S = 30.0
"""How much longer than planned an order may take."""
_Kind = TypeVar("_Kind", bound=AnyAnswer)


@dataclass(frozen=True, slots=True)
class Running:
    """A network that is up, with its probe processes."""

    engine: Path
    """Folder of what the fabric writes."""
    addresses: tuple[str, ...]
    """By rank."""
    nodes: ProbeNodes
    conversation: FabricConversation

    def overloaded(self) -> tuple[str, ...]:
        """Reasons why the fabric was too slow so far."""
        status = self.conversation.ask(GetStatus)
        assert isinstance(status, FabricStatus)  # noqa: S101 - it is the answer to that
        return status.overloaded


@contextmanager
def running_network(
    config: FabricConfig, ranks: Iterable[int], work: WorkFolder, name: str, tcp_settings: TcpSettings
) -> Iterator[Running]:
    """The network in its initial state: no event is played. Raises PreflightRefused where this machine denies it."""
    folder = work.folder / name
    config = msgspec.structs.replace(config, engine=str(folder / "engine"))
    fabric = start_fabric(config, folder)
    work.has_started("fabric", fabric.pid)

    def start(rank: int) -> NodeNetwork:
        return NodeNetwork(config.nodes[rank].address, tcp_settings, config.mtu)

    nodes = ProbeNodes(lambda rank: new_node(rank, start(rank), config.node_socket(rank)))
    try:
        conversation = fabric.connect()
        conversation.ask(partial(Watch, lead=True))
        for rank in ranks:
            nodes.join(rank)
        addresses = tuple(node.address for node in config.nodes)
        yield Running(Path(config.engine), addresses, nodes, conversation)
    finally:
        nodes.end()
        fabric.stop()


def answer_of(kind: type[_Kind], answers: dict[int, AnyAnswer], number: int) -> _Kind:
    """The answer to an order, of the kind that belongs to it."""
    answer = answers[number]
    assert isinstance(answer, kind)  # noqa: S101 - an order has its own kind of answer
    return answer
