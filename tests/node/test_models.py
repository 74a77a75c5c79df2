"""Models: sizes that others have published, the same initial weights everywhere, and a researcher's own."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from testbed.code import CodeProblem
from testbed.errors import ExitCode
from testbed.node.data.dataset import DataSet, Kind, Samples
from testbed.node.models.build import build_model
from testbed.node.models.problems import ModelProblem
from testbed.node.training import Settings, Trainer


def images(*shape: int, classes: int = 10) -> DataSet:
    none = Samples(np.zeros((0, *shape), np.float32), np.zeros(0, np.int64))
    return DataSet("noise", Kind.CLASSES, classes, shape, 0, 0, none, none)


def ratings(users: int, items: int) -> DataSet:
    none = Samples(np.zeros((0, 2), np.int32), np.zeros(0, np.float32))
    return DataSet("stars", Kind.RATINGS, 0, (2,), users, items, none, none)


def vector_of(module: nn.Module) -> list[float]:
    return torch.cat([each.detach().ravel() for each in module.parameters()]).tolist()


@pytest.mark.parametrize(
    ("model", "options", "data", "parameters"),
    [
        ("gn-lenet", {}, images(3, 32, 32), 89_834),
        ("gn-lenet", {}, images(1, 28, 28), 83_754),
        ("gn-lenet", {}, images(1, 8, 8), 78_634),
        ("mlp", {}, images(1, 8, 8), 64 * 32 + 32 + 32 * 10 + 10),
        ("mlp", {"hidden": [64, 32]}, images(1, 8, 8), 6_570),
        ("mlp", {"hidden": []}, images(64), 650),
        ("logistic", {}, images(1, 8, 8), 650),
        ("mf", {}, ratings(943, 1682), 52_500),
        ("mf", {}, ratings(610, 9724), 206_680),
        ("mf", {"factors": 3}, ratings(2, 5), 21),
    ],
)
def test_sizes(model: str, options: dict[str, object], data: DataSet, parameters: int) -> None:
    trainer = Trainer(model, options, data, Settings(0.1, 8), seed=1)
    assert trainer.parameters == parameters
    assert trainer.initial().shape == (parameters,)
    assert trainer.initial().dtype == np.float32


def test_gn_lenet_is_layered_as_published() -> None:
    module = build_model("gn-lenet", {}, images(3, 32, 32), 1)
    sizes = [each.numel() for each in module.state_dict().values()]
    assert sizes == [2400, 32, 32, 32, 25600, 32, 32, 32, 51200, 64, 64, 64, 10240, 10]
    kinds = [type(each).__name__ for each in module.modules() if not list(each.children())]
    assert kinds == ["Conv2d", "GroupNorm", "ReLU", "MaxPool2d"] * 3 + ["Linear"]
    assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_vector_is_in_the_order_of_the_state() -> None:
    data = images(1, 28, 28)
    assert Trainer("gn-lenet", {}, data, Settings(0.1, 8), seed=3).initial().tolist() == vector_of(
        build_model("gn-lenet", {}, data, 3)
    )


def test_initial_weights_depend_on_the_seed_alone() -> None:
    data = images(1, 8, 8)
    first = vector_of(build_model("mlp", {}, data, 1))
    torch.manual_seed(99)
    before = torch.get_rng_state()
    again = build_model("mlp", {}, data, 1)
    assert torch.equal(torch.get_rng_state(), before)
    assert vector_of(again) == first
    assert vector_of(build_model("mlp", {}, data, 2)) != first


def test_factors_begin_small_and_spread() -> None:
    weights = np.array(vector_of(build_model("mf", {}, ratings(943, 1682), 1)))
    assert np.abs(weights).max() <= 0.05
    assert np.abs(weights).max() > 0.0475
    assert weights.std() == pytest.approx(0.1 / 12**0.5, rel=0.02)


def test_factorisation_is_a_product_of_rows() -> None:
    module = build_model("mf", {"factors": 4}, ratings(3, 5), 1)
    users, items = module.state_dict().values()
    found = module(torch.tensor([[2, 4], [0, 1]]))
    assert found.tolist() == pytest.approx([float(users[2] @ items[4]), float(users[0] @ items[1])])


@pytest.mark.parametrize(
    ("model", "options", "data", "words"),
    [
        ("gn-lenett", {}, images(1, 8, 8), "there is no model `gn-lenett`"),
        ("gn-lenet", {}, images(64), "images"),
        ("gn-lenet", {}, images(1, 7, 8), "8×8"),
        ("gn-lenet", {}, ratings(2, 2), "stars"),
        ("mlp", {"hiden": [3]}, images(64), "no option `hiden`"),
        ("mlp", {"hidden": 3}, images(64), "`hidden`"),
        ("mlp", {"hidden": [0]}, images(64), "`hidden`"),
        ("mlp", {}, ratings(2, 2), "stars"),
        ("logistic", {"hidden": [3]}, images(64), "no option"),
        ("mf", {}, images(64), "noise"),
        ("mf", {"factors": 0}, ratings(2, 2), "`factors`"),
        ("mf", {"factors": True}, ratings(2, 2), "`factors`"),
    ],
)
def test_what_does_not_fit_is_told(model: str, options: dict[str, object], data: DataSet, words: str) -> None:
    with pytest.raises(ModelProblem, match=words) as caught:
        build_model(model, options, data, 1)
    assert caught.value.exit_code is ExitCode.INVALID_INPUT


def test_close_names_are_suggested() -> None:
    with pytest.raises(ModelProblem) as caught:
        build_model("gnlenet", {}, images(1, 8, 8), 1)
    assert "`gn-lenet`" in caught.value.hint
    with pytest.raises(ModelProblem) as caught:
        build_model("mlp", {"hiden": [3]}, images(64), 1)
    assert "`hidden`" in caught.value.hint


OWN = """\
import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self, data, width=4):
        super().__init__()
        if width == 13:
            raise ValueError("an unlucky width")
        self.first = nn.Linear(data.input_shape[0], width)
        self.last = nn.Linear(width, data.classes)

    def forward(self, inputs):
        return self.last(torch.tanh(self.first(inputs)))


def no_module(data):
    return 7


class Number(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Linear(width, 2)


class TwoNumbers(nn.Module):
    def __init__(self, width, depth):
        super().__init__()


class Nothing(nn.Module):
    def __init__(self):
        super().__init__()


class Needs(nn.Module):
    def __init__(self, data, width):
        super().__init__()
        self.layer = nn.Linear(width, "2")
"""


def test_own_model_from_a_file(own: str) -> None:
    module = build_model(f"{own}:Wide", {"width": 5}, images(6), 1)
    assert [each.numel() for each in module.parameters()] == [30, 5, 50, 10]
    assert vector_of(module) == vector_of(build_model(f"{own}:Wide", {"width": 5}, images(6), 1))


def test_own_model_that_fails_is_told_with_its_line(own: str) -> None:
    with pytest.raises(CodeProblem, match="an unlucky width") as caught:
        build_model(f"{own}:Wide", {"width": 13}, images(6), 1)
    assert (caught.value.file, caught.value.line) == ("own.py", 9)


def test_own_code_must_give_a_module(own: str) -> None:
    with pytest.raises(CodeProblem, match="gives a int"):
        build_model(f"{own}:no_module", {}, images(6), 1)
    with pytest.raises(CodeProblem, match="is not a class"):
        build_model("math:pi", {}, images(6), 1)
    with pytest.raises(ModelProblem, match="no option `depth`"):
        build_model(f"{own}:Wide", {"depth": 3}, images(6), 1)


@pytest.mark.parametrize(
    ("name", "options", "words", "line"),
    [
        ("Number", {"width": 8}, "the first parameter of `.*` is `width`", 22),
        ("Number", {}, r"\(TypeError\)", 24),
        ("TwoNumbers", {}, "the first parameter of `.*` is `width`, and `depth` has no value", 28),
        ("Nothing", {}, "takes no data set", 33),
    ],
)
def test_a_model_without_room_for_the_data_hears_of_it(
    own: str, name: str, options: dict[str, object], words: str, line: int
) -> None:
    with pytest.raises(CodeProblem, match=f"{words}; .*data set first: def __init__\\(self, data, …\\)$") as caught:
        build_model(f"{own}:{name}", options, images(6), 1)
    assert (caught.value.file, caught.value.line) == ("own.py", line)


def test_other_mistakes_are_not_blamed_on_the_data(own: str) -> None:
    with pytest.raises(ModelProblem, match="needs a value for `width`"):
        build_model(f"{own}:Needs", {}, images(6), 1)
    with pytest.raises(CodeProblem, match=r"\(TypeError\)$"):
        build_model(f"{own}:Needs", {"width": 3}, images(6), 1)
    with pytest.raises(ModelProblem, match="no option `depth`") as caught:
        build_model(f"{own}:Number", {"depth": 3}, images(6), 1)
    assert "no options" in caught.value.hint


@pytest.mark.processes
def test_what_the_command_line_needs_of_models_loads_no_torch() -> None:
    program = (
        "import sys, testbed.node.models.problems, testbed.node.training_settings, testbed.cli.calibrate;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_model_without_room_in_memory_is_told_before_it_takes_any() -> None:
    with pytest.raises(ModelProblem, match=r"75,000,000,010 parameters: .* are left") as told:
        build_model("mlp", {"hidden": [10**9]}, images(1, 8, 8), 1)
    assert told.value.exit_code == ExitCode.INVALID_INPUT
