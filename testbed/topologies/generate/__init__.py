"""Generators: parameters → `Topology`. Pure, but for the matrices that `matrix` reads.

    shapes, random_shapes, regions  ─>  SiteNetwork  ─┐
    graph_import (a package of its own) ─────────────>├─ populate ─> Topology
                                        Population   ─┘

A `SiteNetwork` is bridges and the links between them; `populate` puts nodes behind access links of their own at its
sites. Everything random comes from one seed: the same arguments give the same topology, to the byte.
"""
