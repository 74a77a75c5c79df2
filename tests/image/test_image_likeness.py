"""An image with other code in it than a run was planned with is noticed before it starts."""

from __future__ import annotations

import pytest

from testbed.image.build import Request, context_for
from testbed.image.context import PACKAGE, Context, checkout, context_of, package
from testbed.image.engine_client import connected
from testbed.image.facts import code_label, why_not_this_testbed
from tests.image.fake_engine import FakeEngine

OURS = {"testbed.source": package().digest(), "org.opencontainers.image.version": "0.1.0"}


def said(engine: FakeEngine, labels: dict[str, str]) -> str | None:
    engine.answers["/images/mine:1/json"] = (200, {"Id": "sha256:abc", "Config": {"Labels": labels}})
    with connected() as client:
        return why_not_this_testbed(client, "mine:1")


def test_the_same_code_is_passed_over(engine: FakeEngine) -> None:
    assert said(engine, OURS) is None
    assert said(engine, {**OURS, "testbed.code": code_label({"mine.py": "1"})}) is None


def test_another_testbed(engine: FakeEngine) -> None:
    words = said(engine, {**OURS, "testbed.source": "0" * 64}) or ""
    assert words.startswith("the testbed in the image mine:1 is not this one")
    assert words.endswith("`testbed build --tag mine:1` makes it anew")
    words = said(engine, {"testbed.source": "0", "testbed.code": code_label({"mine.py": "1"})}) or ""
    assert "`testbed build --tag mine:1 --algorithm mine.py`" in words, "what it has of the user's is not lost"
    assert "is not this one" in (said(engine, {"org.opencontainers.image.version": "0.1.0"}) or "")


def test_an_image_that_says_nothing(engine: FakeEngine) -> None:
    assert (said(engine, {}) or "").startswith("nothing tells whether the testbed in the image mine:1 is this one")


def test_what_runs_here_is_what_is_sent() -> None:
    """Else every image would seem to be of another testbed."""
    assert context_of(checkout()).only(PACKAGE).names() == package().names()
    assert context_for(Request()).only(PACKAGE).digest() == package().digest()


@pytest.mark.parametrize("after", [{"a": b"2"}, {"b": b"1"}, {"a": b"1", "b": b""}, {}])
def test_a_digest_is_of_names_and_what_is_in_them(after: dict[str, bytes]) -> None:
    assert Context({}, after).digest() != Context({}, {"a": b"1"}).digest()
    assert Context({}, {"b": b"2", "a": b"1"}).digest() == Context({}, {"a": b"1", "b": b"2"}).digest()
