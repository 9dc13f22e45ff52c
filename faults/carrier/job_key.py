"""The key of a job: whoever has it belongs to the job, and nobody else is heard.

It is a key pair of CURVE, the encryption of ZeroMQ (RFC 26).  All processes of a job share one pair: each proves to
the others that it has the secret half, and what they send to other machines is encrypted.  The public half follows
from the secret one, so the secret is all that a process has to be given.  It travels over standard input, in no
argument and in no environment that user code sees.
"""

from __future__ import annotations

from typing import NamedTuple

import zmq


class JobKey(NamedTuple):
    """A pair of keys, each 40 printable characters (Z85)."""

    public: bytes
    secret: bytes


def fresh() -> JobKey:
    """Return the key of a new job."""
    return JobKey(*zmq.curve_keypair())


def from_secret(secret: str) -> JobKey:
    """Return the key with this secret half; raise ValueError if it is none."""
    try:
        return JobKey(zmq.curve_public(secret.encode()), secret.encode())
    except zmq.ZMQError as wrong:  # characters that Z85 does not have
        raise ValueError(f"no key: {wrong}") from None
