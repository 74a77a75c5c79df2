"""The topology language: all keys of a file, and how their text is parsed.

Pure. The classes below are the only description of the language: readers fill them, and the JSON Schema is generated
from them. XML is mapped onto the same keys (`read_xml`), so that there is one meaning and one set of messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from testbed.topologies.model import (
    DEFAULT_BOOT,
    DEFAULT_IMAGE,
    DEFAULT_MAX_AGE,
    DEFAULT_NETWORK,
    DEFAULT_POOL_PERIOD_S,
    MAX_NODES,
    NodeAction,
    QueueLimit,
    Routing,
)
from testbed.units import (
    UnitError,
    is_text,
    parse_background_bps,
    parse_duration_s,
    parse_latency_ms,
    parse_loss,
    parse_rate_bps,
    parse_size_bytes,
    shown,
)


class Problem(ValueError):
    """A value that the language refuses, with the code of its finding."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def from_text(parse: Callable[[str], object], native: Callable[[int | float], object] | None = None) -> BeforeValidator:
    """Parses the text of a file; `native` checks a number or boolean of JSON, where the language allows one."""

    def convert(value: object) -> object:
        try:
            if isinstance(value, str):
                if not is_text(value):
                    hint = "write it as UTF-8: a terminal, or what made the file, uses another encoding"
                    raise Problem("bad-value", f"{shown(value)} is no Unicode text", hint)
                return parse(value)
            if native is not None and isinstance(value, int | float):
                return native(value)
        except UnitError as problem:
            raise Problem("bad-value", problem.message, problem.hint) from problem
        raise Problem("bad-shape", "a simple value is expected here, not a list or mapping")

    return BeforeValidator(convert)


SHORTEST_S = 1e-6
"""The shortest period or duration."""
_WHOLE = re.compile(r"[0-9]{1,12}")
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{1,4})?")


def parse_count(text: str) -> int:
    """Parses a whole number; refuses a leading zero, which YAML 1.1 reads as octal and YAML 1.2 does not."""
    if not _WHOLE.fullmatch(text):
        wrong = "is too large" if text.isdecimal() else "is not a whole number"
        raise Problem("bad-value", f"{shown(text)} {wrong}", "write a number such as 4")
    if len(text) > 1 and text[0] == "0":
        raise Problem("yaml-trap", f"{shown(text)} is read differently by different readers", "drop the leading zero")
    return int(text)


def _positive(text: str) -> int:
    number = parse_count(text)
    if number < 1:
        raise Problem("bad-value", f"this must be at least 1, not {number}", "write 1 or more")
    return number


def _replicas(text: str) -> int:
    if text.startswith("-") and _WHOLE.fullmatch(text[1:]):
        raise Problem("bad-value", f"this must be at least 1, not {text}", "write 1 or more")
    number = _positive(text)
    if number > MAX_NODES:
        raise Problem("too-many-nodes", f"{number} replicas are too many", f"at most {MAX_NODES} nodes in all")
    return number


def _lasting(text: str) -> float:
    duration_s = parse_duration_s(text)
    if duration_s < SHORTEST_S:
        raise Problem("bad-value", f"{shown(text)} is too short", "write at least 0.001ms, such as 10s")
    return duration_s


def _port(text: str) -> int:
    number = parse_count(text)
    if not 1 <= number <= 65535:
        raise Problem("bad-value", f"{number} is not a port", "a port lies between 1 and 65535")
    return number


def _decimal(text: str) -> float:
    if not _DECIMAL.fullmatch(text) or float(text) <= 0:
        raise Problem(
            "bad-value",
            f"{shown(text)} is not a number above 0 with at most four decimals",
            "write a number such as 0.5",
        )
    return float(text)


def parse_boolean(text: str) -> bool:
    """Parses `true` or `false`; refuses words that only some YAML readers take for booleans."""
    if text not in ("true", "false"):
        better = {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(text.lower(), text.lower())
        hint = f"write `{better}`" if better in ("true", "false") else "write true or false"
        raise Problem("bad-value", f"{shown(text)} is neither true nor false", hint)
    return text == "true"


def _queue(text: str) -> QueueLimit:
    if text.endswith("B"):
        size = parse_size_bytes(text)
        if size == 0:
            raise Problem("bad-value", "a queue of 0 bytes drops everything", "write a size such as 64KiB")
        return QueueLimit(size_bytes=size)
    try:
        waiting = parse_latency_ms(text)
    except UnitError as problem:
        hint = "write a time such as 250ms, or a size such as 64KiB"
        raise Problem("bad-value", f"for a queue, {problem.message}", hint) from problem
    if waiting == 0:
        raise Problem("bad-value", "a queue of 0ms drops everything", "write a time such as 250ms")
    return QueueLimit(ms=waiting)


_TRAILING_REPLICA = re.compile(r"\.[0-9]+\Z")
_FORBIDDEN_IN_NAMES = "/\\*?[]~"
MAX_NAME = 100


def check_name(name: str) -> str:
    """Checks a name, which must be safe as a file name and distinct from nodes and patterns."""
    hint = "use letters, digits, spaces and marks such as - _ . : in a name"
    if not name or len(name) > MAX_NAME or len(name.encode()) > 200:
        raise Problem("bad-name", f"a name has between 1 and {MAX_NAME} characters: {shown(name)}", hint)
    bad = next((char for char in name if char in _FORBIDDEN_IN_NAMES or not char.isprintable()), None)
    if bad is not None:
        raise Problem("bad-name", f"the name {shown(name)} holds {shown(bad)}", hint)
    if name != name.strip() or name[0] in ".-":
        raise Problem("bad-name", f"a name must not begin with `.` or `-` nor be padded: {shown(name)}", hint)
    if _TRAILING_REPLICA.search(name):
        raise Problem(
            "bad-name", f"{shown(name)} looks like replica {name.rsplit('.', 1)[1]} of a service", "drop the `.` number"
        )
    return name


def _printable(text: str) -> str:
    if not text.strip() or not text.isprintable():
        wrong = "is blank" if not text.strip() else "holds a character that does not print"
        raise Problem("bad-value", f"{shown(text)} {wrong}", "write a text of printable characters")
    return text


def one_or_several(value: object) -> object:
    """One text, or a list of texts."""
    return [value] if isinstance(value, str) else value


def text_schema(*kinds: str, pattern: str | None = None, examples: list[object] | None = None) -> WithJsonSchema:
    schema: dict[str, Any] = {"type": list(kinds) if len(kinds) > 1 else kinds[0]}
    if pattern is not None:
        schema["pattern"] = pattern
    if examples is not None:
        schema["examples"] = examples
    return WithJsonSchema(schema)


NUMBER_PATTERN = r"^([0-9]+(\.[0-9]+)?|\.[0-9]+)"
Latency = Annotated[
    float,
    from_text(parse_latency_ms),
    text_schema("string", pattern=NUMBER_PATTERN + "(us|µs|ms|s)$", examples=["5ms"]),
]
Duration = Annotated[
    float,
    from_text(parse_duration_s),
    text_schema("string", pattern=NUMBER_PATTERN + "(ms|s|m|min|h)$", examples=["30s"]),
]
Lasting = Annotated[float, from_text(_lasting), text_schema("string", pattern=NUMBER_PATTERN + "(ms|s|m|min|h)$")]
"""A duration above 0: an effect of no duration would end before it begins."""
Rate = Annotated[
    float,
    from_text(parse_rate_bps),
    text_schema("string", pattern=NUMBER_PATTERN + "[kKMGT]?bps$|^unlimited$", examples=["100Mbps", "unlimited"]),
]
Background = Annotated[
    float,
    from_text(parse_background_bps),
    text_schema("string", pattern=NUMBER_PATTERN + "[kKMGT]?bps$", examples=["200Mbps"]),
]
Loss = Annotated[
    float, from_text(parse_loss), text_schema("string", "number", pattern=NUMBER_PATTERN + "%?$", examples=["1%", 0.01])
]
Queue = Annotated[
    QueueLimit,
    from_text(_queue),
    text_schema(
        "string", pattern=NUMBER_PATTERN + "(us|µs|ms|s|B|kB|KB|MB|GB|KiB|MiB|GiB)$", examples=["250ms", "64KiB"]
    ),
]
Size = Annotated[
    int,
    from_text(parse_size_bytes),
    text_schema("string", pattern=NUMBER_PATTERN + "(B|kB|KB|MB|GB|KiB|MiB|GiB)$", examples=["512MB"]),
]
Positive = Annotated[int, from_text(_positive), WithJsonSchema({"type": "integer", "minimum": 1})]
Replicas = Annotated[int, from_text(_replicas), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MAX_NODES})]
Port = Annotated[int, from_text(_port), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 65535})]
Factor = Annotated[float, from_text(_decimal), WithJsonSchema({"type": "number", "exclusiveMinimum": 0})]
Flag = Annotated[bool, from_text(parse_boolean), WithJsonSchema({"type": "boolean"})]
Word = Annotated[str, from_text(str), WithJsonSchema({"type": ["string", "number", "boolean"]})]
Text = Annotated[str, from_text(_printable), Field(min_length=1)]
"""A text that is safe in any file and on any terminal: not blank, no control characters."""
Words = Annotated[
    tuple[Word, ...], BeforeValidator(one_or_several), text_schema("string", "array", examples=["site-a.*"])
]
Argument = Annotated[tuple[Word, ...], WithJsonSchema({"type": "array", "items": {"type": ["string", "number"]}})]
Sides = Annotated[
    Literal["true", "false", "from", "to", "both"], WithJsonSchema({"enum": [True, False, "from", "to", "both"]})
]


def _hyphenated(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


class Entry(BaseModel):
    """A mapping with fixed keys; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=_hyphenated)

    called: ClassVar[str] = ""
    """Its name in messages, where it differs from that of its parent."""

    @classmethod
    def known_keys(cls, given: Mapping[str, object]) -> list[str]:  # noqa: ARG003 - for those whose keys depend on it
        """The allowed keys, as files spell them."""
        return [field.alias or name for name, field in cls.model_fields.items()]


class Properties(Entry):
    """Properties of a link, or of one direction of it."""

    latency: Latency | None = Field(None, description="One-way delay.")
    jitter: Latency | None = Field(None, description="Standard deviation of the delay; packets stay in order.")
    loss: Loss | None = Field(None, description="Share of packets lost.")
    rate: Rate | None = Field(None, description="Bandwidth, or `unlimited`.")
    queue: Queue | None = Field(None, description="How much may wait before packets are dropped: a time or a size.")
    background: Background | None = Field(None, description="Other people's traffic on the link.")


class TwoWayProperties(Properties):
    up: Rate | None = Field(None, description="Bandwidth from `from` to `to`.")
    down: Rate | None = Field(None, description="Bandwidth from `to` to `from`.")


class Defaults(TwoWayProperties):
    """Defaults of links and services."""

    network: Text | None = Field(None, description="Kollaps: the container network of links.")
    image: Text | None = Field(None, description="Container image of services.")
    cpus: Factor | None = None
    memory: Size | None = None
    speed: Factor | None = None


class ServiceEntry(Entry):
    """A group of equal nodes."""

    replicas: Replicas | None = Field(None, description="How many nodes; 1, or as many as the joins need.")
    image: Text | None = Field(None, description=f"Container image; the default is {DEFAULT_IMAGE}.")
    command: Argument = Field((), description="Arguments of the container's entry point.")
    cpus: Factor | None = Field(None, description="CPU limit.")
    memory: Size | None = Field(None, description="Memory limit.")
    speed: Factor | None = Field(None, description="Compute speed: 0.25 takes four times as long for a step.")
    supervisor: Flag = Field(False, description="Kollaps' dashboard: kept, but not a node.")
    port: Port | None = Field(None, description="Kollaps: the dashboard's port.")
    reuse: Flag = Field(True, description="Whether joins bring back nodes that left, or new ones.")
    active_paths: tuple[Word, ...] = Field((), description="Kollaps: the only services this one is shaped towards.")


class LinkEntry(TwoWayProperties):
    """A link between two services or bridges."""

    from_: Word = Field(description="A service, a bridge, or a selector of nodes.")
    to: Word = Field(description="A service, a bridge, or a selector of nodes.")
    one_way: Flag = Field(False, description="Only from `from` to `to`.")
    back: Properties | None = Field(None, description="What differs in the direction from `to` to `from`.")
    shared: Sides = Field("false", description="Replicas stand behind one link (on the side of `from`, `to`, or both).")
    network: Text | None = Field(None, description="Kollaps: the container network.")


class TimedEntry(Entry):
    """When an event happens."""

    at: Duration | None = Field(None, description="Once, this long after the start.")
    every: Lasting | None = Field(None, description="Again and again, with `from` and `until`.")
    from_: Duration | None = None
    until: Duration | None = None


class NodeEventEntry(TimedEntry):
    """Something happens to nodes."""

    node: Words = Field(description="A service, a node such as `site-a.2`, a pattern such as `site-b.*`, or a list.")
    do: NodeAction
    count: Positive | None = Field(None, description="Only so many of them, chosen by the seed.")
    rejoin: Lasting | None = Field(None, description="After a crash or leave: join again this much later.")
    for_: Lasting | None = Field(None, description="After a pause or disconnect: undo it this much later.")


class LinkEventEntry(TwoWayProperties, TimedEntry):
    """A link changes, goes down or comes up."""

    link: tuple[Word, Word] = Field(description="The two ends, as in `links`.")
    state: Literal["up", "down"] | None = None
    for_: Lasting | None = Field(None, description="After `state: down`: up again this much later.")
    one_way: Flag = Field(False, description="Only the direction from the first end to the second.")
    network: Text | None = Field(None, description="Kollaps: the container network of a link that this event creates.")


class BridgeEventEntry(TimedEntry):
    """A bridge goes down or comes up, with all its links."""

    bridge: Word
    state: Literal["up", "down"]
    for_: Lasting | None = Field(None, description="After `state: down`: up again this much later.")


class PartitionEventEntry(TimedEntry):
    """Groups of nodes that cannot reach each other."""

    partition: tuple[Words, ...] = Field(min_length=2)
    for_: Lasting | None = Field(None, description="How long; without it, to the end.")


EVENT_ENTRIES: dict[str, type[TimedEntry]] = {
    "node": NodeEventEntry,
    "link": LinkEventEntry,
    "bridge": BridgeEventEntry,
    "partition": PartitionEventEntry,
}


class KollapsEntry(Entry):
    """Settings that only Kollaps reads."""

    boot: Text = Field(DEFAULT_BOOT, description="The bootstrapper's image.")
    pool_period: Duration = Field(DEFAULT_POOL_PERIOD_S, description="How often bandwidth is shared out anew.")
    max_age: Positive = Field(DEFAULT_MAX_AGE, description="After how many periods a flow is forgotten.")


class Document(Entry):
    """A topology."""

    name: Word | None = Field(None, description="What to call it; the file's name without this.")
    routing: Routing = Field(Routing.HOPS, description="Shortest paths by number of links, or by latency.")
    defaults: Defaults | None = None
    services: dict[str, ServiceEntry | None] = Field(description="Groups of nodes, by name.")
    bridges: tuple[Word, ...] | None = Field(None, description="Routers and switches.")
    links: tuple[LinkEntry, ...] | None = None
    events: tuple[NodeEventEntry | LinkEventEntry | BridgeEventEntry | PartitionEventEntry, ...] | None = None
    kollaps: KollapsEntry | None = Field(None, description=f"Settings of real Kollaps (network: {DEFAULT_NETWORK}).")


def json_schema() -> dict[str, Any]:
    """The language as a JSON Schema, for editors."""
    schema = Document.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "testbed topology"}
