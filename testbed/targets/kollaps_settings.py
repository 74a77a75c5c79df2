"""What real Kollaps makes of its own settings: the boot image and the times of its loop.

Takes `KollapsSettings`, gives findings; touches nothing. A topology does not know the settings' places, so that
these findings stand at its beginning.
"""

from __future__ import annotations

from collections.abc import Iterator

from testbed.errors import Finding, error, warning
from testbed.topologies.model import DEFAULT_BOOT, DEFAULT_MAX_AGE, DEFAULT_POOL_PERIOD_S, KollapsSettings
from testbed.units import format_duration, shown

_MOST_AGE = 2**32 - 1
"""Kollaps keeps it in 32 bits."""


def setting_findings(settings: KollapsSettings) -> Iterator[Finding]:
    if settings.boot != DEFAULT_BOOT:
        yield warning(
            "kollaps-boot",
            f"the boot image is {shown(settings.boot)}: what is said here of Kollaps holds for {DEFAULT_BOOT}",
            f'write boot="{DEFAULT_BOOT}", unless your image is built from it',
        )
    if settings.max_age > _MOST_AGE:
        message = f"max age is {settings.max_age}, and Kollaps' emulation core takes {_MOST_AGE} at most"
        yield error("kollaps-max-age", message, f"leave it out, or write less: usual is {DEFAULT_MAX_AGE}")
    if settings.pool_period_s == 0:
        yield error(
            "kollaps-pool-period",
            "the pool period is 0: Kollaps divides the bytes of a period by its length",
            f"leave it out, or write more: usual is {format_duration(DEFAULT_POOL_PERIOD_S)}",
        )
