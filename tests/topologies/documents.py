"""Random YAML documents of the language, mostly valid, for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

SERVICES = ["a", "b-1", "no", "012", "a: b", 'q"x', "zürich", "<&>"]
BRIDGES = ["r1", "r 2", "(r3, {x}", "true"]

latencies = st.sampled_from(["0ms", "1ms", "0.5ms", "12.345ms", "0.2s", "150us"])
rates = st.sampled_from(["1Mbps", "1.5Mbps", "10Gbps", "256kbps", "1234567bps", "unlimited"])
losses = st.sampled_from(["0%", "1%", "0.05%", "0.001", "100%"])
queues = st.sampled_from(["250ms", "10ms", "64KiB", "1500B"])
backgrounds = st.sampled_from(["0Mbps", "100kbps"])
words = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=5)
times = st.sampled_from(["0s", "1s", "2.5s", "30s", "1m"])


_Fields = dict[str, st.SearchStrategy[Any]]


def _some(fields: _Fields) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


_extras = {"jitter": latencies, "loss": losses, "queue": queues, "background": backgrounds}


@st.composite
def documents(draw: st.DrawFn, *, kollaps: bool = False) -> dict[str, Any]:
    """A topology as plain data; with `kollaps`, mostly what XML can say too."""
    services = draw(st.lists(st.sampled_from(SERVICES), min_size=1, max_size=4, unique=True))
    bridges = draw(st.lists(st.sampled_from(BRIDGES), max_size=3, unique=True))
    ends = services + bridges
    device = {} if kollaps else {"cpus": st.sampled_from([1, 0.5]), "memory": st.just("512MB"), "speed": st.just(0.25)}
    service = _some(
        {
            "replicas": st.integers(1, 3),
            "image": st.sampled_from(["i", "my/learner:1", "a 'quoted' \"one\""]) | words,
            "command": st.lists(
                st.sampled_from(["run", "it's", "a, b", "1", "", "\n"]) | st.text(max_size=4), max_size=3
            ),
            "reuse": st.booleans(),
            **device,
        }
    )
    sharing = {} if kollaps else {"shared": st.sampled_from([True, "from", "to", "both"])}
    extras = {"jitter": latencies, "loss": losses} if kollaps else _extras
    networks = {"network": st.sampled_from(["n", "a b"]) | words}
    rate = rates.filter(lambda text: text != "unlimited") if kollaps else rates
    directions = st.one_of(
        st.fixed_dictionaries({"rate": rate}),
        st.fixed_dictionaries({"up": rate, "down": rate}),
        st.fixed_dictionaries({"rate": rate, "one-way": st.just(True)}),
        st.fixed_dictionaries({"rate": rate, "back": _some({"latency": latencies, "rate": rate, **extras})}),
    )
    links = []
    for _ in range(draw(st.integers(0, 5)) if len(ends) > 1 else 0):
        pair = draw(st.permutations(ends))[:2]
        link = {"from": pair[0], "to": pair[1], "latency": draw(latencies)}
        links.append(link | draw(directions) | draw(_some(extras | sharing | networks)))
    events = draw(st.lists(_event(services, bridges, links, kollaps=kollaps), max_size=5))
    document: dict[str, Any] = {"services": {name: draw(service) for name in services}}
    document |= {"bridges": bridges, "links": links} | draw(_some({"name": words}))
    if draw(st.booleans()):
        document["kollaps"] = draw(_some({"boot": words, "pool-period": st.just("0.1s"), "max-age": st.just(3)}))
    routing = draw(st.sampled_from([None, "hops", "latency"]))
    return document | ({"events": events} if events else {}) | ({"routing": routing} if routing else {})


def _event(
    services: list[str], bridges: list[str], links: list[dict[str, Any]], *, kollaps: bool
) -> st.SearchStrategy[dict[str, Any]]:
    once = st.fixed_dictionaries({"at": times})
    again = st.just({"every": "5s", "from": "1s", "until": "20s"})
    when = once if kollaps else st.one_of(once, again)
    actions = ["join", "leave", "crash", "disconnect", "reconnect"] + ([] if kollaps else ["pause", "resume"])
    names = st.sampled_from(services)
    targets = names if kollaps else st.one_of(names, names.map(lambda name: name + ".0"), st.just(["*"]))
    kinds = [st.fixed_dictionaries({"node": targets, "do": st.sampled_from(actions)}, optional={"count": st.just(1)})]
    if bridges:
        state = st.sampled_from(["up", "down"])
        kinds.append(st.fixed_dictionaries({"bridge": st.sampled_from(bridges), "state": state}))
    if links:
        ends = st.sampled_from([[link["from"], link["to"]] for link in links])
        change: _Fields = {"latency": latencies, "jitter": latencies}
        rate = rates.filter(lambda text: text != "unlimited") if kollaps else rates
        one_way: _Fields = {"one-way": st.just(True)}
        kinds += [
            st.fixed_dictionaries({"link": ends, "loss": losses, "rate": rate}, optional=change),
            st.fixed_dictionaries({"link": ends, "loss": losses}, optional=one_way | change),
            st.fixed_dictionaries({"link": ends, "state": st.sampled_from(["up", "down"])}, optional=one_way),
        ]
    if len(services) > 1:
        created: _Fields = {"link": st.permutations(services).map(lambda order: order[:2]), "state": st.just("up")}
        kinds.append(st.fixed_dictionaries({**created, "latency": latencies, "rate": st.just("7Mbps")}))
    if not kollaps and len(services) > 1:
        groups: st.SearchStrategy[Any] = st.just([[services[0]], [services[1]]])
        lasting: _Fields = {"for": times}
        kinds.append(st.fixed_dictionaries({"partition": groups}, optional=lasting))
    return st.tuples(when, st.one_of(kinds)).map(lambda both: both[0] | both[1])
