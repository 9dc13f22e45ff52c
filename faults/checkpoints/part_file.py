"""The file format of a bundle's part of a checkpoint: an archive of its identity, a pickle, and the bundle's arrays.

    part.json                      the job, checkpoint, bundle, assignment, superstep and head that it was written for
    handover.pickle                everything but what follows
    process-3/state.beta.npy       the array `state.beta` of process 3
    process-3/coarray-0.1.npy      its second coarray (context 0: the program's own, not a library's supersteps)
    process-3/array-4.npy          an array somewhere inside its state
    loop-0/process-3/...           the same of the state in which loop 0 has ended
    buffer-000000                  a large message that is to be delivered to a process once more

`numpy.load(part)["process-3/state.beta"]` reads one array, without pickle.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Mapping
from itertools import count, takewhile
from typing import Any

from bsp.faults.carrier.segments import bytes_of
from bsp.faults.checkpoints.archive import Block
from bsp.faults.errors import CheckpointError
from bsp.faults.protocol.messages import Handover, Packed, Snapshot

_OF = "part.json"
_PICKLE = "handover.pickle"


def members(handover: Handover, of: Mapping[str, Any]) -> Iterator[tuple[str, Block]]:
    """Yield the names and contents of the archive members for a bundle's state.

    of : JSON values that identify the part (job, checkpoint, bundle, ...); `handover` compares them.
    """
    arrays: dict[str, Block] = {}

    def light(place: Snapshot, where: str) -> Snapshot:
        """Move the arrays of a snapshot into `arrays`, each a member of its own, and leave the names in it."""
        data: Packed = place.data
        named = zip(data.names, data.arrays, strict=True)
        arrays.update((f"{where}{name}.npy", bytes_of(array)) for name, array in named)
        return place._replace(data=data._replace(arrays=()))

    finals = tuple(light(final, f"loop-{final.loop}/") for final in handover.finals)
    snapshot = None if handover.snapshot is None else light(handover.snapshot, "")
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(handover._replace(finals=finals, snapshot=snapshot), 5, buffer_callback=buffers.append)
    yield _OF, json.dumps(dict(of), indent=1).encode() + b"\n"
    yield _PICKLE, rest
    yield from arrays.items()
    for k, buffer in enumerate(buffers):
        yield _buffer(k), buffer.raw()


def handover(found: Mapping[str, bytearray], of: Mapping[str, Any]) -> Handover:
    """Return the bundle's state from the members of a part.  Unpickles: the caller has verified the part's seal before.

    Raises CheckpointError if the part was written for another identity than `of`.
    """
    written = json.loads(found[_OF])
    if wrong := [
        f"{key} {written.get(key)!r}, not {value!r}" for key, value in of.items() if written.get(key) != value
    ]:
        raise CheckpointError(f"it is the part of another checkpoint: {', '.join(wrong)}")

    def whole(place: Snapshot, where: str) -> Snapshot:
        """Put the arrays back into a snapshot that `members` has written without them."""
        data: Packed = place.data
        return place._replace(data=data._replace(arrays=tuple(found[f"{where}{name}.npy"] for name in data.names)))

    buffers = [found[name] for name in takewhile(found.__contains__, map(_buffer, count()))]
    state: Handover = pickle.loads(found[_PICKLE], buffers=buffers)
    return state._replace(
        finals=tuple(whole(final, f"loop-{final.loop}/") for final in state.finals),
        snapshot=None if state.snapshot is None else whole(state.snapshot, ""),
    )


def _buffer(k: int) -> str:
    """Return the member name of the k-th out-of-band pickle buffer."""
    return f"buffer-{k:06d}"
