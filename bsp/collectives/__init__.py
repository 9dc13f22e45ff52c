"""Collectives: each carried out by the cheapest of several algorithms, all with the same result (D3).

A module holds one collective, or some that share steps: for every algorithm its steps and beside them their costs.
`choice` compares the costs, `sizes` holds patterns that costs are made of, and `steps` carries supersteps out.  Where
only the root has the size, it chooses, and the number of supersteps travels in the headers of the first.
"""

from bsp.collectives.broadcasts import broadcast as broadcast
from bsp.collectives.exchanges import allgather as allgather
from bsp.collectives.exchanges import alltoall as alltoall
from bsp.collectives.exchanges import total_exchange as total_exchange
from bsp.collectives.gathers import gather as gather
from bsp.collectives.reductions import allreduce as allreduce
from bsp.collectives.reductions import reduce as reduce
from bsp.collectives.reductions import scan as scan
from bsp.collectives.scatters import scatter as scatter
from bsp.collectives.transfers import transfer as transfer
