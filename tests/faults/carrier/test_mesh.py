"""Connections of a job's processes: who has the key is heard, strangers are not, and nothing waits for anybody."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
import zmq.auth.thread

from bsp.faults.carrier import frames, near
from bsp.faults.carrier.job_key import JobKey, fresh
from bsp.faults.carrier.mesh import Address, Mesh
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


def taken(mesh: Mesh, count: int, *senders: Mesh) -> list[tuple[int, Any]]:
    """The next messages; senders go on with what they could not write at once."""
    found: list[tuple[int, Any]] = []
    until = time.monotonic() + SECONDS
    while len(found) < count:
        assert time.monotonic() < until, found
        for each in senders:
            assert not list(each.take())
        mesh.wait(0.01)
        found += mesh.take()
    return found


@pytest.mark.parametrize("network", [None, "127.0.0.1"])
def test_messages_arrive_in_order_with_large_packets_beside_them(network: str | None) -> None:
    data = os.urandom(1 << 24)
    with meshes(1, 1, network=network) as (one, other):
        for k in range(100):
            one.send(1, ("small", k))
        one.send(1, Data(0, 1, 2, BundlePacket(len(data), b"digest", data)))
        found = taken(other, 101, one)
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
        stranger.connect(other.address.abroad)
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


def hello(address: Address, said: bytes) -> socket.socket:
    """A connection to a process on this machine, of somebody who says something."""
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(SECONDS)
    end.connect("\0" + address.here)
    end.sendall(said)
    return end


def test_a_stranger_on_the_machine_is_turned_away_before_anything_is_unpickled(tmp_path: Path) -> None:
    marker = tmp_path / "the payload has run"
    payload = frames.encode(Payload(marker))[0]
    key = fresh()
    with meshes(1, 1, key=key) as (one, other), contextlib.ExitStack() as open_ones:
        sayings = [payload, os.urandom(32) + payload, near._proof(fresh(), other.address.here) + payload,
                   near._proof(key, one.address.here) + payload]  # fmt: skip
        for said in sayings:
            stranger = open_ones.enter_context(hello(other.address, said))
            while not list(other.take()) and other._near._unproven:
                pass
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
        one.send(1, "one of us")
        assert taken(other, 1) == [(0, "one of us")]
        assert not marker.exists()


def test_who_says_nothing_is_turned_away_in_time_and_a_thousand_are_not_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with meshes(1, 1) as (one, other), contextlib.ExitStack() as open_ones:
        assert other.due() == float("inf")
        strangers = [open_ones.enter_context(hello(other.address, b"")) for _ in range(400)]
        one.send(1, "one of us")
        assert taken(other, 1) == [(0, "one of us")]
        assert time.monotonic() < other.due() <= time.monotonic() + near._HANDSHAKE
        monkeypatch.setattr(near, "_HANDSHAKE", 0.0)
        last = open_ones.enter_context(hello(other.address, near._proof(fresh(), "")[:3]))
        assert not list(other.take()) and not list(other.take())
        with contextlib.suppress(ConnectionResetError):
            assert last.recv(1) == b""
        late = other.due() + 9.0
        with monkeypatch.context() as later:
            later.setattr(time, "monotonic", lambda: late)
            assert not list(other.take())
        assert {end.recv(1) for end in strangers} == {b""}


def test_nothing_is_said_to_who_has_taken_the_name_of_another_user() -> None:
    with meshes(1, 1) as (one, other):
        one.meet(2, other.address._replace(user=other.address.user + 1))
        one.send(2, "not for you")
        one.send(1, "for you")
        assert taken(other, 1) == [(0, "for you")]


def test_who_does_not_read_keeps_nobody_waiting_and_then_hears_in_order() -> None:
    text = "x" * 1000
    with meshes(1, 1) as (one, other):
        for k in range(30_000):  # more than the system and the queue hold
            one.send(1, (k, text))
        found = taken(other, 1000, one)
        while found[-1][1] != "the last":
            assert not list(one.take())
            one.send(1, "the last")
            other.wait(0.01)
            found += other.take()
        numbers = [message[0] for _, message in found if message != "the last"]
        assert numbers == list(range(len(numbers))) and len(numbers) < 30_000


def test_a_connection_that_has_broken_is_opened_anew() -> None:
    with meshes(1, 1) as (one, other):
        one.send(1, "first")
        assert taken(other, 1) == [(0, "first")]
        for descriptor in list(other._near._incoming):
            other._near._drop(descriptor)
        one.send(1, "lost")
        one.send(1, "second")
        assert taken(other, 1) == [(0, "second")]


def test_what_is_written_last_arrives_also_if_the_receiver_is_late() -> None:
    data = os.urandom(1 << 23)
    with meshes(1, 1) as (one, other):
        one.send(1, Data(0, 1, 2, BundlePacket(len(data), b"digest", data)))
        thread = threading.Thread(target=one.close, args=(SECONDS,))
        thread.start()
        ((_, found),) = taken(other, 1)
        thread.join()
        assert bytes(found.packet.data) == data


def test_garbage_and_a_thousand_connections_are_not_noticed() -> None:
    with meshes(1, 1, network="127.0.0.1") as (one, other), contextlib.ExitStack() as open_ones:
        for k in range(1000):
            end = open_ones.enter_context(socket.create_connection(("127.0.0.1", other.address.port)))
            with contextlib.suppress(OSError):
                end.sendall(os.urandom(k % 100) + b"GET / HTTP/1.1\r\n\r\n")
        one.send(1, "one of us")
        assert taken(other, 1) == [(0, "one of us")]


def test_what_is_sent_to_who_is_gone_or_unknown_is_lost_and_nobody_waits() -> None:
    key = fresh()
    with meshes(1, 1, key=key) as (one, other):
        one.send(7, "who?")
        gone = Mesh(key, 2, 1)
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
    mesh = Mesh(fresh(), 0, network="127.0.0.1")
    nowhere = mesh.address._replace(machine="another", network="no such host")
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
        Mesh(fresh(), 0, network="")
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
        found = []
        while not found:
            assert not list(one.take())  # what is due is sent
            other.wait(0.01)
            found = list(other.take())
        assert found == [(0, "late")]
