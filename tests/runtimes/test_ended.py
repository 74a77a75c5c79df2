"""Ctrl-C and SIGTERM, in any phase: the run ends in good order, with exit code 130, and nothing stays."""

from __future__ import annotations

import os
import signal

import pytest

from testbed.records import Over
from tests.runtimes.local_runs import needs_network
from tests.runtimes.scratch_run import ENDLESS, PATIENCE_S, ScratchRun, until
from tests.runtimes.sim_runs import records

pytestmark = needs_network


@pytest.mark.parametrize(
    ("number", "phase"),
    [
        *[(signal.SIGINT, phase) for phase in ("first", "starting", "training", "ending")],
        (signal.SIGTERM, "training"),
    ],
)
def test_a_signal_ends_a_run_in_good_order(number: signal.Signals, phase: str, scratch: ScratchRun) -> None:
    scratch.write_plan(stop={"time": "1s"} if phase == "ending" else ENDLESS)
    with scratch.start() as process:
        if phase == "first":
            until(scratch.record, process)
        else:
            scratch.reach(phase, process)
        namespaces = scratch.namespaces()
        os.killpg(process.pid, number)
        if phase == "ending":
            assert process.stderr is not None
            until(lambda: "once more" in process.stderr.readline(), process)  # type: ignore[union-attr]
            scratch.go_on()
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert phase == "ending" or "once more to end it at once" in said
    assert "\ninterrupted: " in f"\n{said}"
    assert "Error" not in said
    assert "Traceback" not in said
    scratch.assert_nothing_is_left(namespaces)
    over = records(scratch.run, None)[-1]
    assert isinstance(over, Over)
    assert (over.reason, over.failed) == ("interrupted", 0)
    if phase == "training":
        assert set(scratch.last_words().values()) == {"interrupted"}


def test_a_second_signal_ends_it_at_once(scratch: ScratchRun) -> None:
    with scratch.start() as process:
        scratch.reach("training", process)
        namespaces = scratch.namespaces()
        for rank in range(3):
            node = scratch.process(f"node {rank}")
            assert node is not None
            os.kill(node.pid, signal.SIGSTOP)  # they cannot end in good order
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        until(lambda: "once more" in process.stderr.readline(), process)  # type: ignore[union-attr]
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    scratch.assert_nothing_is_left(namespaces)


def test_ctrl_c_while_a_run_that_would_go_on_starts(scratch: ScratchRun) -> None:
    with scratch.start("--detach") as process:
        until(lambda: scratch.process("zygote"), process)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    scratch.assert_nothing_is_left(set())


def test_a_run_that_goes_on_by_itself_ends_when_its_control_is_told(scratch: ScratchRun) -> None:
    with scratch.start("--detach") as process:
        process.communicate(timeout=PATIENCE_S)
    until(scratch.trains)
    control, namespaces = scratch.process("control"), scratch.namespaces()
    assert control is not None
    os.kill(control.pid, signal.SIGTERM)
    scratch.assert_nothing_is_left(namespaces)
    assert set(scratch.last_words().values()) == {"interrupted"}
