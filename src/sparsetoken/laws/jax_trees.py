"""The laws' containers as JAX's trees, so that they can be traced. Importing this module registers them.

It is a module of its own because simulations use the laws without JAX, whose import takes a second.
"""

from __future__ import annotations

from jax.tree_util import register_pytree_node

from .draws import TokenDraws, TokenGroup
from .nodes import Nodes

register_pytree_node(Nodes, lambda nodes: (nodes.leaves(), None), lambda _, leaves: Nodes(*leaves))
register_pytree_node(
    TokenGroup,
    lambda group: (group.leaves(), group.ceiling),
    lambda ceiling, leaves: TokenGroup(leaves[0], leaves[1], leaves[2], ceiling),
)
register_pytree_node(
    TokenDraws,
    lambda draws: ((draws.signals, draws.others, draws.offset, draws.common), None),
    lambda _, parts: TokenDraws(*parts),
)
