"""Graph files of four forms → a networkx graph.

Takes a path, gives a graph, touches that file. The form follows from the ending: `.graphml` and `.xml`, `.gml`,
`.json` (node-link), `.txt`, `.edges`, `.edgelist` and `.csv` (edge list).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

import networkx as nx

from testbed.errors import InvalidInput, UsageProblem, Where, error
from testbed.topologies.graph_import.edge_list import edge_list_graph
from testbed.topologies.graph_import.node_link import json_graph
from testbed.topologies.graph_import.problems import Graph, check_size, refuse
from testbed.topologies.source import read_at_most

MOST_BYTES = 16_000_000
_MOST_XML_DEPTH = 50
_MOST_GML_DEPTH = 50
_GML_PLACE = re.compile(r"\(?line (\d+)|\((\d+), (\d+)\)")


def read_graph(path: Path) -> Graph:
    """The graph in a file; raises InvalidInput with its errors and their places."""
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise UsageProblem(f"cannot tell what kind of graph {path} is", f"known endings: {', '.join(sorted(_READERS))}")
    graph = reader(str(path), _contents(path))
    check_size(str(path), graph)
    return graph


def _contents(path: Path) -> bytes:
    try:
        data = read_at_most(path, MOST_BYTES)
    except OSError as problem:
        raise UsageProblem(f"cannot read {path}: {(problem.strerror or 'it failed').lower()}") from problem
    if data is None:
        refuse(str(path), "too-large", "the file is too large", f"the most is {MOST_BYTES} bytes")
    return data


def _text(file: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        before = data[: problem.start]
        where = Where(before.count(b"\n") + 1, problem.start - before.rfind(b"\n"))
        refuse(file, "encoding", "the file is not UTF-8 text", "save it in UTF-8", where)


def _graphml(file: str, data: bytes) -> Graph:
    _check_xml(file, data)
    return _by_networkx(file, "GraphML", lambda: nx.read_graphml(BytesIO(data)))


def _check_xml(file: str, data: bytes) -> None:
    """Checks XML before networkx reads it: well-formed, no document type (and so no entities), bounded depth."""
    parser = expat.ParserCreate()
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    depth = 0

    def here() -> Where:
        return Where(parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)

    def start(_tag: str, _attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MOST_XML_DEPTH:
            refuse(file, "too-deep", f"nested more than {_MOST_XML_DEPTH} deep", "a graph is flat", here())

    def end(_tag: str) -> None:
        nonlocal depth
        depth -= 1

    def doctype(*_declaration: object) -> NoReturn:
        refuse(file, "doctype", "document types and entities are not allowed", "remove the <!DOCTYPE …>", here())

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as problem:
        words = expat.errors.messages.get(problem.code, "syntax error")
        where = Where(problem.lineno, problem.offset + 1)
        refuse(file, "syntax", f"not XML: {words}", "is this a GraphML file?", where)
    except (ValueError, LookupError) as problem:
        refuse(file, "encoding", f"unknown encoding: {problem}", "save it in UTF-8")


def _gml(file: str, data: bytes) -> Graph:
    lines = _text(file, data).splitlines()
    _check_gml_depth(file, lines)
    # By id: published GML files often have two nodes with the same label.
    return _by_networkx(file, "GML", lambda: nx.parse_gml(lines, label="id"))


def _check_gml_depth(file: str, lines: Iterable[str]) -> None:
    """Bounds the depth, since networkx' parser recurses for each level."""
    depth = 0
    for number, line in enumerate(lines, start=1):
        depth += line.count("[") - line.count("]")
        if depth > _MOST_GML_DEPTH:
            refuse(file, "too-deep", f"nested more than {_MOST_GML_DEPTH} deep", "a graph is flat", Where(number, 1))


def _by_networkx(file: str, form: str, read: Callable[[], Graph]) -> Graph:
    try:
        graph = read()
    except Exception as problem:  # networkx' readers raise arbitrary exceptions for malformed files
        match = _GML_PLACE.search(str(problem))
        where = Where(int(match[1] or match[2]), int(match[3] or 1)) if match else Where(1, 1)
        words = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise InvalidInput(
            file, [error("graph-syntax", f"not {form} that can be read: {words}", "", where)]
        ) from problem
    return graph


def _json(file: str, data: bytes) -> Graph:
    return json_graph(file, _text(file, data))


def _edges(file: str, data: bytes) -> Graph:
    return edge_list_graph(file, _text(file, data))


_READERS: dict[str, Callable[[str, bytes], Graph]] = {
    ".graphml": _graphml,
    ".xml": _graphml,
    ".gml": _gml,
    ".json": _json,
    ".txt": _edges,
    ".edges": _edges,
    ".edgelist": _edges,
    ".csv": _edges,
}
