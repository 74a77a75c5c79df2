"""What a pool and its workers say to each other: records of bytes, small enough that a pipe never splits one.

Takes orders and outcomes, gives bytes, and back; touches nothing.
"""

from __future__ import annotations

import select
import signal
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import msgspec

from testbed.code import CodeProblem
from testbed.node.training_settings import ComputingLost, Score, TrainingFailed

_ORDER = struct.Struct("=qiiqqi")
_OUTCOME = struct.Struct("=qiiddq")
_WHOLE_BYTES = getattr(select, "PIPE_BUF", 512)
"""What a pipe takes in one piece; systems without it have no workers to read from one."""
_LONGEST_MESSAGE = 2000
"""Characters; at most six bytes each in JSON, so cut again until the record fits."""

ORDER_BYTES = _ORDER.size


class Work(IntEnum):
    TRAIN = 0
    GRADIENT = 1
    EVALUATE = 2


@dataclass(frozen=True, slots=True)
class Order:
    """One piece of work; the vectors are in the arena."""

    number: int
    work: Work
    row: int
    first_step: int = 0
    steps: int = 0
    who: int = 0
    """The learner; -1 for an average, which is no learner's model."""

    def pack(self) -> bytes:
        return _ORDER.pack(self.number, self.work, self.row, self.first_step, self.steps, self.who)

    @staticmethod
    def unpack(record: bytes) -> Order:
        number, work, row, first_step, steps, who = _ORDER.unpack(record)
        return Order(number, Work(work), row, first_step, steps, who)


class WorkerFailed(ComputingLost):
    """A worker met an unforeseen exception; has its words."""


class WorkerLost(ComputingLost):
    """A worker process ended before it was told to: killed, perhaps for want of memory."""

    def __init__(self, pid: int, status: int) -> None:
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        why = ", perhaps for want of memory" if status == -signal.SIGKILL else ""
        super().__init__(f"a worker process {how}{why}", f"worker process {pid} {how}")
        self.pid = pid
        self.status = status
        """As subprocess has it: an exit status, or minus the number of the signal."""


Outcome = float | Score | Exception


class _Kind(IntEnum):
    LOSS = 0
    SCORE = 1
    SCORE_WITHOUT_ACCURACY = 2
    TRAINING_FAILED = 3
    CODE_PROBLEM = 4
    UNFORESEEN = 5


class _Trouble(msgspec.Struct):
    message: str
    file: str | None = None
    line: int | None = None


def pack_outcome(number: int, outcome: Outcome) -> bytes:
    if isinstance(outcome, Score):
        kind = _Kind.SCORE if outcome.accuracy is not None else _Kind.SCORE_WITHOUT_ACCURACY
        return _OUTCOME.pack(number, kind, 0, outcome.loss, outcome.accuracy or 0.0, outcome.samples)
    if not isinstance(outcome, Exception):
        return _OUTCOME.pack(number, _Kind.LOSS, 0, outcome, 0.0, 0)
    kind, trouble = _trouble(outcome)
    trouble.message = trouble.message[:_LONGEST_MESSAGE]
    words = msgspec.json.encode(trouble)
    while len(words) > _WHOLE_BYTES - _OUTCOME.size:
        trouble.message = trouble.message[: len(trouble.message) // 2]
        trouble.file = trouble.file and trouble.file[-255:]
        words = msgspec.json.encode(trouble)
    return _OUTCOME.pack(number, kind, len(words), 0.0, 0.0, 0) + words


def _trouble(problem: Exception) -> tuple[_Kind, _Trouble]:
    if isinstance(problem, TrainingFailed):
        return _Kind.TRAINING_FAILED, _Trouble(problem.message)
    if isinstance(problem, CodeProblem):
        return _Kind.CODE_PROBLEM, _Trouble(problem.message, problem.file, problem.line)
    return _Kind.UNFORESEEN, _Trouble(f"{type(problem).__name__}: {problem}")


class OutcomeReader:
    """Cuts a stream of bytes into outcomes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, some: bytes) -> Iterator[tuple[int, Outcome]]:
        """The numbers and outcomes that are complete now."""
        self._bytes += some
        while len(self._bytes) >= _OUTCOME.size:
            number, kind, words, loss, accuracy, samples = _OUTCOME.unpack_from(self._bytes)
            end = _OUTCOME.size + words
            if len(self._bytes) < end:
                return
            tail = bytes(self._bytes[_OUTCOME.size : end])
            del self._bytes[:end]
            yield number, _outcome(_Kind(kind), tail, loss, accuracy, samples)


def _outcome(kind: _Kind, words: bytes, loss: float, accuracy: float, samples: int) -> Outcome:
    if kind is _Kind.LOSS:
        return loss
    if kind in (_Kind.SCORE, _Kind.SCORE_WITHOUT_ACCURACY):
        return Score(accuracy if kind is _Kind.SCORE else None, loss, samples)
    trouble = msgspec.json.decode(words, type=_Trouble)
    if kind is _Kind.TRAINING_FAILED:
        return TrainingFailed(trouble.message)
    if kind is _Kind.CODE_PROBLEM:
        return CodeProblem(trouble.message, trouble.file, trouble.line)
    return WorkerFailed(trouble.message)
