"""A container's first process: what it loads before it has its network, and that its words are everybody's.

Every container of a run loads that before the last of them is in the network.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from testbed import boot_messages
from testbed.protocol.fabric import FROM_FABRIC_TO_NODE, FROM_NODE_TO_FABRIC, Attach, Attached, Refused
from testbed.protocol.message import Message, encode
from testbed.protocol.zygote import Fork
from testbed.runtimes.containers import FABRIC_SOCKET, LOG, NODE, PLAN, ROOT, SOCKETS, SUPERVISOR_SOCKET
from testbed.runtimes.containers.container_paths import ContainerPaths
from testbed.runtimes.containers.supervisor_messages import ATTACH, FROM_SUPERVISOR, KILL, TO_SUPERVISOR, Came, Do
from testbed.socket_paths import short_enough

REPOSITORY = Path(__file__).parents[1]
PLANNED = {
    "node": {"address": "198.18.0.1"},
    "experiment": {"network": {"congestion": "cubic"}},
    "time_scale": 2.0,
}
HEAVY = {
    *("msgspec", "typing_extensions", "pydantic", "numpy", "torch"),
    *("asyncio", "dataclasses", "inspect", "pathlib", "typing"),
    *("testbed.errors", "testbed.protocol", "testbed.runtimes.containers.supervisor"),
}
CHILD = f"""
import sys
{{first}}
from contextlib import nullcontext
import ctypes, json, os
from testbed.engines import device
from testbed.runtimes import containers
from testbed.runtimes.containers import arrival
from testbed.runtimes.containers import __main__

containers.ROOT = sys.argv[1]
given_up = []
device.bring_up = lambda _: None
device.drop_privileges = given_up.append
device.make_device = lambda made: os.open(os.devnull, os.O_RDWR)
device.acting_as = arrival.acting_as = lambda _: nullcontext()
arrive = arrival.arrive

def tell(root, user):
    arrived = arrive(root, user)
    loaded = [each for each in {sorted(HEAVY)} if each in sys.modules]
    is_dumpable = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
    denied = None if isinstance(arrived, int) or arrived.denied is None else arrived.denied.reason
    print(json.dumps([loaded, not is_dumpable and given_up == [(7, 8)], denied]), flush=True)
    return 0

arrival.arrive = tell
__main__.main(["learner"])
"""


class Container:
    """Its first process, with no other privileges than the test's: the device is /dev/null."""

    def __init__(self, folder: Path, first: str = "") -> None:
        sockets, node = folder / SOCKETS, folder / NODE
        sockets.mkdir()
        node.mkdir()
        (node / PLAN).write_text(json.dumps(PLANNED))
        self._open = ExitStack()
        self._control_door, self._fabric_door = map(self._door, (sockets / SUPERVISOR_SOCKET, sockets / FABRIC_SOCKET))
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD.format(first=first), str(folder)],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), "TESTBED_UID": "7", "TESTBED_GID": "8"},
            stdout=subprocess.PIPE,
        )
        self.control: socket.socket

    def _door(self, path: Path) -> socket.socket:
        door = self._open.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        door.settimeout(30)
        with short_enough(path) as name:
            door.bind(name)
        door.listen()
        return door

    def comes(self) -> None:
        self.control = self._open.enter_context(self._control_door.accept()[0])
        self.control.settimeout(30)
        assert FROM_SUPERVISOR.read(self.control.recv(1000)) == Came()

    def hands_over(self, answer: bytes) -> None:
        with self._fabric_door.accept()[0] as node:
            node.settimeout(30)
            data, descriptors, _, _ = socket.recv_fds(node, 1000, 2)
            assert FROM_NODE_TO_FABRIC.read(data) == Attach()
            assert len(descriptors) == 1
            os.close(descriptors[0])
            node.send(answer)

    def tells(self) -> tuple[set[str], bool, str | None]:
        """What of all that is heavy it has loaded, whether all privileges were given up, and what it was denied."""
        out, _ = self._process.communicate(timeout=30)
        loaded, has_given_up, denied = json.loads(out)
        return set(loaded), bool(has_given_up), denied

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._open.close()


@contextmanager
def container(folder: Path, first: str = "") -> Iterator[Container]:
    made = Container(folder, first)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.processes
def test_nothing_heavy_is_loaded_until_control_has_more_to_say_than_that_it_gets_its_network(tmp_path: Path) -> None:
    with container(tmp_path) as first:
        first.comes()
        first.control.send(encode(Do(ATTACH)))
        first.hands_over(encode(Attached()))
        first.control.send(encode(Fork(0)))
        assert first.tells() == (set(), True, None)


@pytest.mark.processes
def test_the_check_sees_what_is_loaded(tmp_path: Path) -> None:
    with container(tmp_path, "import dataclasses, msgspec, pydantic, numpy") as first:
        first.comes()
        first.control.send(encode(Do(ATTACH)))
        first.hands_over(encode(Attached()))
        first.control.send(encode(Fork(0)))
        loaded, _, _ = first.tells()
        assert loaded >= {"msgspec", "typing_extensions", "pydantic", "numpy", "dataclasses", "inspect"}


@pytest.mark.processes
def test_one_that_lives_at_once_gets_its_network_too_and_what_is_said_too_early_is_passed_over(tmp_path: Path) -> None:
    with container(tmp_path) as first:
        first.comes()
        first.control.send(encode(Do(KILL)))
        first.control.send(encode(Fork(0, "checkpoint", 3)))
        first.hands_over(encode(Attached()))
        loaded, has_given_up, denied = first.tells()
        assert "testbed.protocol" in loaded, "that was another word than the one it knows"
        assert (has_given_up, denied) == (True, None)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (encode(Refused("for a reason")), "for a reason"),
        (b"\xc1", "cannot be read"),
        (encode(Came()), "cannot be read"),
        (encode(Attached()) + b"\0", "cannot be read"),
    ],
)
@pytest.mark.processes
def test_any_other_answer_of_the_fabric_is_none_that_gives_it_a_network(
    answer: bytes, why: str, tmp_path: Path
) -> None:
    with container(tmp_path) as first:
        first.comes()
        first.control.send(encode(Do(ATTACH)))
        first.hands_over(answer)
        first.control.send(encode(Fork(0)))
        _, has_given_up, denied = first.tells()
        assert denied is not None
        assert why in denied
        assert not has_given_up, "that comes when it has its network"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (boot_messages.CAME, Came()),
        (boot_messages.DO_ATTACH, Do(ATTACH)),
        (boot_messages.ATTACH, Attach()),
        (boot_messages.ATTACHED, Attached()),
    ],
    ids=lambda each: type(each).__name__,
)
def test_the_first_words_are_what_the_protocol_makes_of_them(word: bytes, message: Message) -> None:
    assert encode(message) == word


def test_all_who_hear_the_first_words_understand_them() -> None:
    assert FROM_SUPERVISOR.read(boot_messages.CAME) == Came()
    assert TO_SUPERVISOR.read(boot_messages.DO_ATTACH) == Do(ATTACH)
    assert FROM_NODE_TO_FABRIC.read(boot_messages.ATTACH) == Attach()
    assert FROM_FABRIC_TO_NODE.read(boot_messages.ATTACHED) == Attached()


def test_the_first_process_finds_everything_where_it_lies() -> None:
    inside = ContainerPaths()
    assert str(inside.sockets) == os.path.join(ROOT, SOCKETS)
    assert str(inside.node.plan) == os.path.join(ROOT, NODE, PLAN)
    assert str(inside.node.log) == os.path.join(ROOT, NODE, LOG)
