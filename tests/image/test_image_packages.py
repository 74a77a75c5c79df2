"""What a base is asked before anything is built on it, and that nothing is left of the question."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.errors import CouldNotStart, PreflightRefused
from testbed.image.build import Request, context_for
from testbed.image.engine_client import connected
from testbed.image.packages import Packages, image_with, run_build
from tests.image.fake_engine import fake_engine


def test_a_base_without_python_leaves_no_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'e'}")
    with fake_engine(tmp_path / "e") as server:
        server.answers |= {
            "/images/bare/json": (200, {"Id": "sha256:bare"}),
            "/containers/create": (201, {"Id": "c"}),
            "/containers/c/start": (400, {"message": 'exec: "python": not found\nmore'}),
            "/containers/c": (200, {}),
        }
        wanted = Packages(context_for(Request()), "bare", "cpu", None)
        with connected() as engine, pytest.raises(PreflightRefused) as caught:
            image_with(engine, wanted, lambda _: None, lambda _: None)
        assert caught.value.message == 'the base image bare has no working `python`: exec: "python": not found'
        assert server.asked[-1] == "/containers/c", "it is removed"


def test_nobody_listens_any_more_to_a_build_that_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even while the exception is held, and with it all objects of the SDK."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'e'}")
    with fake_engine(tmp_path / "e") as server:
        server.answers["/build"] = (200, [b'{"stream": "Step 1/2 : FROM x"}\n', b'{"error": "no such thing"}\n'])
        context = context_for(Request())
        with connected() as engine, pytest.raises(CouldNotStart, match="no such thing") as caught:
            run_build(engine, context, "t", lambda _: None, arguments={}, labels={}, network="none")
        assert server.hung_up.wait(20)
        assert caught.value.hint == ""
