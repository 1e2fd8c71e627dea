"""attest.torch.parallel: attention over a process group: rows and keys, or heads, of one sequence on several ranks.

    from attest.torch import parallel

    cut = parallel.zigzag(rows=16384, ranks=dist.get_world_size())
    q, k, v = (cut.shard(x, dist.get_rank(), dim=2) for x in (q, k, v))     # or made from a shard in the first place
    o = parallel.attention(q, k, v, cut, causal=True)                       # the rows of this rank

    with parallel.enable(cut):                                              # or a whole model, through its attention
        model(input_ids=cut.shard(ids, rank), position_ids=cut.positions(rank)[None])

docs/parallel.md describes which method to choose, and the guarantees.
"""

from .attend import attention
from .context import enable
from .cut import Cut, contiguous, zigzag
from .faults import RankError

__all__ = ["Cut", "RankError", "attention", "contiguous", "enable", "zigzag"]
