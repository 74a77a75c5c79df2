"""An image that is not there is made where all packages for it are, and only there."""

from __future__ import annotations

import pytest

from testbed.errors import PreflightRefused
from testbed.image import build as module
from testbed.image.base import OWN, USUAL
from testbed.image.build import Request, context_for, have_image, request_at_hand
from testbed.image.engine_client import connected
from testbed.image.packages import Packages, name_of
from testbed.runtimes.docker.preflight import why_no_containers
from tests.image.fake_engine import FakeEngine

TAG = "mine:1"


def add(engine: FakeEngine, *names: str) -> None:
    for name in names:
        engine.answers[f"/images/{name}/json"] = (200, {"Id": f"sha256:{name}", "Config": {"Labels": {}}})


def add_packages(engine: FakeEngine, base: str) -> None:
    """What this checkout needs, on that base."""
    with connected() as client:
        add(engine, name_of(client, Packages(context_for(Request()), base, Request().torch, None)))


def at_hand(tag: str = TAG) -> Request | None:
    with connected() as client:
        return request_at_hand(client, tag)


def test_packages_for_this_very_checkout_must_be_there(engine: FakeEngine) -> None:
    assert at_hand() is None
    add(engine, OWN, "testbed-dependencies:0123456789abcdef")
    assert at_hand() is None, "others are of no use"
    assert why_no_containers(TAG) == "the Docker Engine has no image mine:1"
    add_packages(engine, OWN)
    assert at_hand() == Request(TAG, OWN)
    assert why_no_containers(TAG) is not None, "`deploy` takes containers by itself where the image is built, only"
    add(engine, TAG)
    assert why_no_containers(TAG) is None
    add(engine, USUAL)
    assert at_hand() is None, "it would be built on that"
    assert engine.pulled == []


@pytest.mark.parametrize("tag", ["sha256:" + "a" * 64, "0123456789ab", "mine@sha256:" + "a" * 64, "No Name"])
def test_nothing_is_made_in_place_of_a_certain_image(tag: str, engine: FakeEngine) -> None:
    add(engine, USUAL)
    add_packages(engine, USUAL)
    assert at_hand(tag) is None


def test_it_is_made_once_and_said(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Request] = []
    told: list[str] = []

    def build(request: Request, *_: object) -> None:
        made.append(request)
        add(engine, TAG)

    monkeypatch.setattr(module, "build_image", build)
    with pytest.raises(PreflightRefused) as refused:
        have_image(TAG, told.append)
    assert (refused.value.message, refused.value.hint) == (
        "there is no image mine:1",
        "build it: testbed build --tag mine:1",
    )
    assert (made, told) == ([], [])
    add(engine, USUAL)
    add_packages(engine, USUAL)
    for _ in range(2):
        have_image(TAG, told.append)
    assert (made, told) == ([Request(TAG, USUAL)], ["building the image mine:1, since all packages for it are here"])
