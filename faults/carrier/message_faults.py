"""Injected faults of messages between agents: some are dropped, delayed or sent twice (`--inject drop:rate=0.01`)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from bsp.faults.injection import Fault


class MessageFaults:
    """The faults of messages that one agent sends, drawn from the seeds of the faults."""

    def __init__(self, faults: Sequence[Fault], element: int) -> None:
        self.faults = [fault for fault in faults if fault.kind in ("drop", "delay", "duplicate")]
        self._draw = {fault: random.Random(f"{fault.seed} {element}") for fault in self.faults}

    def copies(self) -> list[float]:
        """Return after how many seconds each copy of the next message is sent: [0.0] for one without a fault."""
        copies = [0.0]
        for fault in self.faults:
            if self._draw[fault].random() < (fault.rate or 0.0):
                if fault.kind == "drop":
                    return []
                if fault.kind == "delay":
                    return [fault.seconds or 0.0]
                copies.append(0.0)
        return copies
