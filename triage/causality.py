"""The cause graph of an incident: evidence groups as nodes, each pointing to what followed from it and why we think so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import networkx as nx

from triage.history import Burst
from triage.moments import SECOND, parse_time, span

if TYPE_CHECKING:
    from triage.decisions import Decision
    from triage.history import History

STAGES = ("precursor", "operator", "root", "cascade", "fact", "symptom", "teardown", "outcome", "recovery")
POLICY = "T23"
"""What ended by policy has a cause that is no fault: nothing is missing before it."""
UNKNOWN = "unknown"
PARENTS: dict[str, tuple[str, ...]] = {
    "root": ("root",),
    "cascade": ("root",),
    "fact": ("root", "cascade"),
    "symptom": ("root",),
    "teardown": ("symptom", "cascade", "root"),
    "outcome": ("symptom", "cascade", "root", "operator"),
    "recovery": ("outcome", "root"),
}
# NVRM: Xid (PCI:0000:3b:00): 45, ... caused by previous Xid 94
_SAYS_CAUSE = re.compile(r"caused by previous Xid (\d{1,4})")

Node = Mapping[str, Any]


def graph_of(evidence: Sequence[Mapping[str, Any]], decision: Decision, history: History) -> dict[str, Any]:
    """Node-link data (`directed`, `multigraph`, `graph`, `nodes`, `edges`) of the evidence rows of an answer.

    nodes  id (e1 is the first row), stage, code, host, device, begin (microseconds or null), count, text, source, line
    edges  source, target, reason
    """
    bursts = {(history.where(b.source_id), b.line): b for b in reversed(decision.finding.incident.bursts)}
    graph: nx.DiGraph[str] = nx.DiGraph()
    for number, row in enumerate(evidence, 1):
        graph.add_node(f"e{number}", **_node(row, bursts.get((row["source"], row["line"]))))
    nodes = {name: dict(graph.nodes[name]) for name in graph}
    chosen = _chosen(nodes, decision, history)
    for child, parent, reason in _links(nodes, chosen):
        graph.add_edge(parent, child, reason=reason)
    if decision.finding.root is None and nodes and decision.finding.class_id != POLICY:
        _add_unknown(graph, nodes)
    assert nx.is_directed_acyclic_graph(graph)
    data: dict[str, Any] = nx.node_link_data(graph, edges="edges")
    return data


def _node(row: Mapping[str, Any], burst: Burst | None) -> dict[str, Any]:
    begin = burst.start if burst else parse_time(row["about"]) if row.get("about") else None
    return {
        "stage": row["role"],
        "code": row["code"],
        "host": row["host"],
        "hosts": row["hosts"],
        "device": burst.device if burst else None,
        "begin": begin,
        "waited_s": burst.duration_s if burst and burst.code == "nccl.timeout" else None,
        "count": row["count"],
        "text": row["text"],
        "source": row["source"],
        "line": row["line"],
    }


def _chosen(nodes: Mapping[str, Node], decision: Decision, history: History) -> str | None:
    """The node of the root that was chosen."""
    root = decision.finding.root
    roots = [n for n, node in nodes.items() if node["stage"] == "root"]
    if root is None:
        return None
    place = (history.where(root.source_id), root.line)
    exact = [n for n in roots if (nodes[n]["source"], nodes[n]["line"]) == place]
    alike = [n for n in roots if nodes[n]["code"] == root.code]
    return next(iter([*exact, *alike, *roots]), None)


def _links(nodes: Mapping[str, Node], chosen: str | None) -> Iterable[tuple[str, str, str]]:
    """(child, parent, reason) of every node that something before it explains."""
    for name, node in nodes.items():
        if node["stage"] == "precursor":
            if chosen is not None and _not_after(node, nodes[chosen]):
                yield chosen, name, _reason(node, nodes[chosen])
        elif name != chosen:
            for parent in _parents(name, nodes, chosen):
                yield name, parent, _reason(nodes[parent], node)


def _parents(name: str, nodes: Mapping[str, Node], chosen: str | None) -> list[str]:
    node = nodes[name]
    wanted = PARENTS.get(node["stage"], ())
    for stage in wanted:
        if stage == "root":
            if chosen is not None:
                return [chosen]
            continue
        found = [n for n, other in nodes.items() if other["stage"] == stage and _not_after(other, node)]
        if found:
            return found[-3:]
    return []


def _not_after(first: Node, second: Node) -> bool:
    return first["begin"] is None or second["begin"] is None or first["begin"] <= second["begin"]


def _reason(parent: Node, child: Node) -> str:
    """Why the child is taken to follow from the parent."""
    parts = []
    said = _SAYS_CAUSE.search(child["text"])
    if said:
        parts.append(f"the driver says: caused by Xid {said[1]}")
    parts.append(_where(parent, child))
    parts.append(_when(parent, child))
    if child["waited_s"]:
        parts.append(f"ranks waited {span(child['waited_s'])} before they said so")
    return ", ".join(p for p in parts if p)


def _where(parent: Node, child: Node) -> str:
    if parent["host"] and parent["host"] == child["host"]:
        same_gpu = parent["device"] and parent["device"] == child["device"]
        return f"same GPU {parent['device']}" if same_gpu else f"same host {parent['host']}"
    return "same job" if child["stage"] in ("symptom", "outcome", "teardown") else ""


def _when(parent: Node, child: Node) -> str:
    if parent["begin"] is None or child["begin"] is None:
        return "order inferred: a line has no stamp"
    gap = (child["begin"] - parent["begin"]) / SECOND
    if abs(gap) < 1:
        return f"{gap * 1000:.0f} ms later" if gap >= 0.001 else "at once"
    return f"{span(gap)} later" if gap > 0 else f"printed {span(-gap)} earlier"


def _add_unknown(graph: nx.DiGraph[str], nodes: Mapping[str, Node]) -> None:
    """Without a root the chain begins at a node that says so."""
    heads = [n for n in nodes if graph.in_degree(n) == 0 and nodes[n]["stage"] in ("symptom", "outcome", "cascade", "teardown")]
    graph.add_node(
        UNKNOWN, stage=UNKNOWN, code="no root seen", host=None, hosts=0, device=None, begin=None, waited_s=None, count=0,
        text="nothing that was read shows the first cause", source="", line=0,
    )  # fmt: skip
    for name in heads:
        graph.add_edge(UNKNOWN, name, reason="its cause is in no log that was read")


def folded(graph: Mapping[str, Any], most: int = 14) -> dict[str, Any]:
    """The graph itself, or when it has more than `most` nodes one with alike nodes (stage and code) as one, for a picture or a list."""
    if len(graph["nodes"]) <= most:
        return dict(graph)
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for node in graph["nodes"]:
        groups.setdefault((node["stage"], node["code"]), []).append(node)
    name = {node["id"]: group[0]["id"] for group in groups.values() for node in group}
    edges: dict[tuple[str, str], Mapping[str, Any]] = {}
    for edge in graph["edges"]:
        pair = (name[edge["source"]], name[edge["target"]])
        if pair[0] != pair[1]:
            edges.setdefault(pair, {**edge, "source": pair[0], "target": pair[1]})
    return {**graph, "nodes": [_merged(group) for group in groups.values()], "edges": list(edges.values())}


def _merged(group: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    hosts = {node["host"] for node in group if node["host"]}
    host = next(iter(hosts)) if len(hosts) == 1 else None
    return {**group[0], "host": host, "hosts": max(len(hosts), *(n["hosts"] for n in group)), "count": sum(n["count"] for n in group)}


def in_order(graph: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Edges of node-link data from cause to effect, for a list."""
    rebuilt: nx.DiGraph[str] = nx.DiGraph((e["source"], e["target"]) for e in graph["edges"])
    place = {name: i for i, name in enumerate(nx.lexicographical_topological_sort(rebuilt, key=lambda n: (len(n), n)))}
    return sorted(graph["edges"], key=lambda e: (place[e["source"]], place[e["target"]]))
