"""What is denied comes with the one line that changes it: told by a machine's own files, here of machines made up."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from testbed.engines.denied import NetworkDenied
from testbed.engines.machine_facts import MachineFacts
from testbed.engines.steps import Step

UBUNTU = {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"}
DEBIAN = {"proc/sys/kernel/unprivileged_userns_clone": "0\n"}
OPEN = {**dict.fromkeys(UBUNTU, "0\n"), **dict.fromkeys(DEBIAN, "1\n")}
NONE_LEFT = {"proc/sys/user/max_user_namespaces": "0\n", "proc/sys/user/max_net_namespaces": "90000\n"}
NO_NETWORKS = {"proc/sys/user/max_user_namespaces": "90000\n", "proc/sys/user/max_net_namespaces": "0\n"}
MANY = {"proc/sys/user/max_user_namespaces": "90000\n", "proc/sys/user/max_net_namespaces": "90000\n"}
FILTERED = {"proc/self/status": "Name:\tpython\nSeccomp:\t2\nSeccomp_filters:\t1\n"}
UNFILTERED = {"proc/self/status": "Seccomp:\t0\nSeccomp_filters:\t0\n"}
DOCKER = {".dockerenv": ""}
PODMAN = {"run/.containerenv": ""}
KUBERNETES = {"proc/self/environ": "HOME=/\0KUBERNETES_SERVICE_HOST=127.0.0.1\0"}
NO_CONTAINER = {"proc/self/environ": "HOME=/\0MY_KUBERNETES_SERVICE_HOST=127.0.0.1\0"}
CONFINED = {"proc/self/attr/current": "docker-default (enforce)\n"}
RUN = "docker run --device /dev/net/tun --security-opt seccomp=unconfined --security-opt systempaths=unconfined"
MODPROBE = "sudo modprobe tun"
RAISE = "sudo sysctl -w user.max_user_namespaces=65536"
RAISE_BOTH = "sudo sysctl -w user.max_user_namespaces=65536 user.max_net_namespaces=65536"
NO_APPARMOR_RULE = "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
ALLOW_CLONE = "sudo sysctl -w kernel.unprivileged_userns_clone=1"


def denied(step: Step, number: int, files: dict[str, str], root: Path, user: int = 1000) -> NetworkDenied:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return NetworkDenied(step, os.strerror(number), number, MachineFacts(root, user))


@pytest.mark.parametrize(
    ("step", "number", "files", "line"),
    [
        (Step.TUN_DEVICE, errno.ENOENT, UNFILTERED, MODPROBE),
        (Step.TUN_DEVICE, errno.ENODEV, DOCKER, MODPROBE),
        (Step.TUN_DEVICE, errno.EACCES, DOCKER, "sudo chmod 666 /dev/net/tun"),
        (Step.TUN_DEVICE, errno.ENOENT, DOCKER, RUN),
        (Step.TUN_DEVICE, errno.EPERM, DOCKER, RUN),
        (Step.TUN_DEVICE, errno.ENOENT, PODMAN, RUN),
        (Step.TUN_DEVICE, errno.ENOENT, KUBERNETES, RUN),
        (Step.TUN_DEVICE, errno.ENOENT, NO_CONTAINER, MODPROBE),
        (Step.USER_NAMESPACE, errno.EPERM, UBUNTU, NO_APPARMOR_RULE),
        (Step.USER_NAMESPACE, errno.EACCES, UBUNTU, NO_APPARMOR_RULE),
        (Step.LOOPBACK, errno.EPERM, UBUNTU, NO_APPARMOR_RULE),
        (Step.TUN, errno.EPERM, UBUNTU, NO_APPARMOR_RULE),
        (Step.USER_NAMESPACE, errno.EPERM, DEBIAN, ALLOW_CLONE),
        (Step.USER_NAMESPACE, errno.EPERM, UBUNTU | DOCKER, f"on the container's host, {NO_APPARMOR_RULE}"),
        (Step.USER_NAMESPACE, errno.ENOSPC, NONE_LEFT, RAISE),
        (Step.USER_NAMESPACE, errno.ENOSPC, NO_NETWORKS, "sudo sysctl -w user.max_net_namespaces=65536"),
        (Step.USER_NAMESPACE, errno.ENOSPC, MANY, RAISE_BOTH),
        (Step.NAMESPACE, errno.ENOSPC, NONE_LEFT, "sudo sysctl -w user.max_net_namespaces=65536"),
        (Step.USER_NAMESPACE, errno.EPERM, DOCKER | FILTERED, RUN),
        (Step.USER_NAMESPACE, errno.EPERM, DOCKER | FILTERED | UBUNTU | DEBIAN, RUN),
        (Step.NAMESPACE, errno.EPERM, DOCKER | FILTERED, RUN),
        (Step.SETTINGS, errno.EROFS, DOCKER | UNFILTERED, RUN),
        (Step.NAMESPACE, errno.EPERM, DOCKER | FILTERED | CONFINED, f"{RUN} --security-opt apparmor=unconfined"),
    ],
)
def test_the_line_is_the_one_that_this_machine_needs(
    step: Step, number: int, files: dict[str, str], line: str, tmp_path: Path
) -> None:
    found = denied(step, number, files, tmp_path)
    assert found.message == f"{step} was denied: {os.strerror(number)}"
    assert found.way_out.endswith(f": {line}")
    assert found.hint == f"{found.way_out}; or run without a network of its own: --engine none"


@pytest.mark.parametrize(
    ("step", "number", "files", "words"),
    [
        (Step.USER_NAMESPACE, errno.EPERM, OPEN | FILTERED, "a seccomp filter denies user namespaces"),
        (Step.USER_NAMESPACE, errno.EPERM, OPEN | UNFILTERED, "a chroot, a security module denies user namespaces"),
        (Step.USER_NAMESPACE, errno.EACCES, OPEN, "the maps of the user namespace"),
        (Step.USER_NAMESPACE, errno.EINVAL, UBUNTU, "several threads"),
        (Step.NAMESPACE, errno.EPERM, OPEN, "root without CAP_SYS_ADMIN"),
        (Step.TUN, errno.EPERM, OPEN, "CAP_NET_ADMIN"),
        (Step.TUN_DEVICE, errno.EPERM, OPEN, "DeviceAllow="),
        (Step.ROUTE, errno.ENOENT, UBUNTU, "congestion control"),
        (Step.ROUTE, errno.EINVAL, DOCKER | FILTERED, "congestion control"),
    ],
)
def test_what_no_line_changes_is_explained(
    step: Step, number: int, files: dict[str, str], words: str, tmp_path: Path
) -> None:
    found = denied(step, number, files, tmp_path)
    assert words in found.way_out
    assert "sysctl" not in found.way_out


def test_root_needs_no_sudo_and_is_not_who_those_rules_are_about(tmp_path: Path) -> None:
    assert denied(Step.TUN_DEVICE, errno.ENOENT, {}, tmp_path, user=0).way_out.endswith(": modprobe tun")
    ruled = denied(Step.USER_NAMESPACE, errno.EPERM, UBUNTU | DEBIAN, tmp_path, user=0)
    assert "sysctl" not in ruled.way_out


def test_where_nothing_is_known_of_it_there_is_still_another_way(tmp_path: Path) -> None:
    found = denied(Step.HAND_OVER, 0, {}, tmp_path)
    assert (found.way_out, found.hint) == ("", "or run without a network of its own: --engine none")


def test_this_machine_can_be_looked_at() -> None:
    here = MachineFacts()
    assert here.user == os.geteuid()
    assert here.setting("kernel.pid_max") == int(Path("/proc/sys/kernel/pid_max").read_text())
    assert here.setting("kernel.no_such_thing") is None
