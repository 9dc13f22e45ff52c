"""Messages, reports, orders and effects of cloned execution, as plain data, with the limits of the protocol.

A program is split into bundles of processes.  Each bundle runs as one or more clones, each on another element.
All communication of a program is one sequence of numbered exchanges between bundles.  A head is the start of a
round of a `rounds` loop, or the end of the loop; heads are numbered over the whole program.

Names validate data (rule N7): every message that carries bytes names the exchange, the source bundle and the
destination bundle.  Elements and bsprun send each other their state, not requests: they repeat it until the state
that the other side sends back shows that it has arrived (rule N14).  The rules N1 to N17 are in member.py.
"""

from bsp.faults.protocol.messages.between_elements import (
    Announce,
    Data,
    Gone,
    Handover,
    Marks,
    Passed,
    Pull,
    Tail,
    Want,
)
from bsp.faults.protocol.messages.effects import (
    Answer,
    Commit,
    Corrupt,
    Deliver,
    Die,
    Dismiss,
    Fence,
    Finished,
    Leave,
    Lost,
    Note,
    NotWritten,
    Once,
    Order,
    Print,
    Read,
    Reply,
    Say,
    SendTo,
    StartWorker,
    StopWorker,
    Tell,
    Write,
)
from bsp.faults.protocol.messages.from_workers import (
    END_COMPARED,
    Asks,
    Died,
    Ended,
    Head,
    Printed,
    Stuck,
    Submitted,
    Wrote,
)
from bsp.faults.protocol.messages.limits import Limits
from bsp.faults.protocol.messages.orders import Hold, Orders
from bsp.faults.protocol.messages.packets import BundlePacket, Packed, Snapshot, Token
from bsp.faults.protocol.messages.reports import AgentReport, Divergence, Progress
from bsp.faults.protocol.messages.views import ClonePlace, Role, View

__all__ = [
    "END_COMPARED",
    "AgentReport",
    "Announce",
    "Answer",
    "Asks",
    "BundlePacket",
    "ClonePlace",
    "Commit",
    "Corrupt",
    "Data",
    "Deliver",
    "Die",
    "Died",
    "Dismiss",
    "Divergence",
    "Ended",
    "Fence",
    "Finished",
    "Gone",
    "Handover",
    "Head",
    "Hold",
    "Leave",
    "Limits",
    "Lost",
    "Marks",
    "NotWritten",
    "Note",
    "Once",
    "Order",
    "Orders",
    "Packed",
    "Passed",
    "Print",
    "Printed",
    "Progress",
    "Pull",
    "Read",
    "Reply",
    "Role",
    "Say",
    "SendTo",
    "Snapshot",
    "StartWorker",
    "StopWorker",
    "Stuck",
    "Submitted",
    "Tail",
    "Tell",
    "Token",
    "View",
    "Want",
    "Write",
    "Wrote",
]
