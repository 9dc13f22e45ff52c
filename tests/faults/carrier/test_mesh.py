"""Connections of a job's processes: who has the key is heard, strangers are not, and nothing waits for anybody."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.auth.thread

from bsp.faults.carrier.job_key import JobKey, fresh, from_secret
from bsp.faults.carrier.mesh import Mesh
from bsp.faults.carrier.message_faults import MessageFaults
from bsp.faults.injection import parse
from bsp.faults.protocol.messages import BundlePacket, Data

SECONDS = 60.0  # at most, on a busy machine


@contextlib.contextmanager
def meshes(*terms: int, key: JobKey | None = None, network: str | None = None) -> Iterator[list[Mesh]]:
    """One process for each term, all acquainted with each other; `network`: over TCP, as if on several machines."""
    key = key or fresh()
    found = [Mesh(key, number, term, network) for number, term in enumerate(terms)]
    try:
        for one in found:
            for other in found:
                if one is not other:
                    address = other.address
                    one.meet(other.number, address if network is None else address._replace(machine="another"))
        yield found
    finally:
        for each in found:
            each.close()


def taken(mesh: Mesh, count: int) -> list[tuple[int, Any]]:
    """The next messages."""
    found: list[tuple[int, Any]] = []
    until = time.monotonic() + SECONDS
    while len(found) < count:
        assert time.monotonic() < until, found
        mesh.socket.poll(10)
        found += mesh.take()
    return found


@pytest.mark.parametrize("network", [None, "127.0.0.1"])
def test_messages_arrive_in_order_with_large_packets_beside_them(network: str | None) -> None:
    data = os.urandom(1 << 20)
    with meshes(1, 1, network=network) as (one, other):
        for k in range(100):
            one.send(1, ("small", k))
        one.send(1, Data(0, 1, 2, BundlePacket(len(data), b"digest", data)))
        found = taken(other, 101)
        assert [message for _, message in found[:100]] == [("small", k) for k in range(100)]
        assert bytes(found[100][1].packet.data) == data and {sender for sender, _ in found} == {0}
        assert one.sent_bytes > len(data)


def test_whoever_belongs_to_another_term_is_not_heard_and_whoever_outlasts_terms_is() -> None:
    with meshes(1, 2, 0, 2) as (first, second, always, friend):
        first.send(1, "of an earlier term")
        always.send(1, "a keeper")
        assert taken(second, 1) == [(2, "a keeper")]
        friend.send(1, "of this term")
        assert taken(second, 1) == [(3, "of this term")]
        first.send(2, "to a keeper")
        assert taken(always, 1) == [(0, "to a keeper")]


class Payload:
    """Unpickled, it leaves a mark."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("how", ["another key", "no key", "the public half alone"])
def test_a_stranger_is_not_heard_and_nothing_of_it_is_unpickled(how: str, tmp_path: Path) -> None:
    marker = tmp_path / "the payload has run"
    key = fresh()
    context = zmq.Context()
    with meshes(1, 1, key=key, network="127.0.0.1") as (one, other):
        for address in (other.address.here, other.address.abroad):
            stranger: zmq.Socket[bytes] = context.socket(zmq.PUSH)
            stranger.set(zmq.LINGER, 0)
            if how != "no key":
                theirs = fresh()
                stranger.curve_publickey, stranger.curve_secretkey = theirs
                stranger.curve_serverkey = key.public if how == "the public half alone" else theirs.public
            monitor = stranger.get_monitor_socket(
                zmq.EVENT_DISCONNECTED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
                | zmq.EVENT_CLOSED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
            )  # fmt: skip
            stranger.connect(address)
            with contextlib.suppress(zmq.Again):
                stranger.send_pyobj(Payload(marker), zmq.NOBLOCK)
            assert monitor.poll(SECONDS * 1000), "the stranger is not turned away"
            monitor.close()
            stranger.disable_monitor()
            stranger.close()
        one.send(1, "one of us")
        assert taken(other, 1) == [(0, "one of us")]
        assert not marker.exists()
    context.term()


def test_garbage_and_a_thousand_connections_are_not_noticed() -> None:
    with meshes(1, 1, network="127.0.0.1") as (one, other), contextlib.ExitStack() as open_ones:
        for k in range(1000):
            end = open_ones.enter_context(socket.create_connection(("127.0.0.1", other.address.port)))
            with contextlib.suppress(OSError):
                end.sendall(os.urandom(k % 100) + b"GET / HTTP/1.1\r\n\r\n")
        one.send(1, "one of us")
        assert taken(other, 1) == [(0, "one of us")]


def test_what_is_sent_to_who_is_gone_or_unknown_is_lost_and_nobody_waits() -> None:
    with meshes(1, 1) as (one, other):
        one.send(7, "who?")
        gone = Mesh(from_secret(one._key.secret.decode()), 2, 1)
        one.meet(2, gone.address)
        gone.close()
        for k in range(20_000):  # more than its queue holds
            one.send(2, k)
        one.send(1, "still here")
        assert taken(other, 1) == [(0, "still here")]
        assert one.known() == {1, 2}
        one.forget(2)
        assert one.known() == {1}


@pytest.mark.timeout(60)
def test_a_mesh_closes_after_an_interrupt_of_a_connection() -> None:
    """A Ctrl-C may come while a socket is opened; its command must end all the same."""
    mesh = Mesh(fresh(), 0)
    nowhere = mesh.address._replace(here="nowhere://")
    with pytest.raises(zmq.ZMQError) as kept:  # with the socket, as an interrupt keeps it
        mesh.meet(1, nowhere)
    mesh.close()
    assert kept.value


@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of sockets that Python closes
def test_an_interrupt_of_the_start_of_a_mesh_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it comes before the thread that checks keys has started."""

    def interrupted(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(zmq.auth.thread, "AuthenticationThread", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Mesh(fresh(), 0)
    gc.collect()


def test_injected_faults_drop_delay_and_double_messages() -> None:
    with meshes(1, 1) as (one, other):
        one.faults = MessageFaults(parse("drop:rate=0.5,seed=1; duplicate:rate=0.5,seed=2"), 0)
        for k in range(200):
            one.send(1, k)
        one.faults = None
        one.send(1, "the last")
        found = [message for _, message in taken(other, 1)]
        while found[-1] != "the last":
            found += [message for _, message in taken(other, 1)]
        numbers = found[:-1]
        assert 60 < len(set(numbers)) < 140 and len(numbers) > len(set(numbers)) and numbers == sorted(numbers)
        one.faults = MessageFaults(parse("delay:rate=1,seconds=0.05,seed=1"), 0)
        one.send(1, "late")
        assert one.due() > time.monotonic() - SECONDS and not list(other.take())
        while not other.socket.poll(10):
            assert not list(one.take())  # what is due is sent
        assert taken(other, 1) == [(0, "late")]
