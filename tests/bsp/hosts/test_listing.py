"""Lists of hosts: from options, hostfiles and Slurm's variables; elements placed on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsp.errors import LaunchError
from bsp.hosts.listing import Host, from_file, from_option, from_slurm, is_here, placed, repeated


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("h1:4,h2", [Host("h1", 4), Host("h2", 1)]),
        ("node-1.example.org:16", [Host("node-1.example.org", 16)]),
        ("10.0.0.1:2, 10.0.0.2:3", [Host("10.0.0.1", 2), Host("10.0.0.2", 3)]),
        ("me@h1:2", [Host("me@h1", 2)]),
    ],
)
def test_options(text: str, hosts: list[Host]) -> None:
    assert from_option(text) == hosts


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("h1 slots=4\nh2 slots = 2 max_slots=2  # new\n\n# off: h3\n", [Host("h1", 4), Host("h2", 2)]),
        ("h1:4\nh2:2\nh3\n", [Host("h1", 4), Host("h2", 2), Host("h3", 1)]),
        ("h1 slots=2 rack=a\nh2:2 rack=b", [Host("h1", 2, "a"), Host("h2", 2, "b")]),
        ("\ufeffh1:4\r\nh2\r\n", [Host("h1", 4), Host("h2", 1)]),
        ("h2\nh2\nh1\nh2 # again\nh3:2\n", [Host("h2", 3), Host("h1", 1), Host("h3", 2)]),
    ],
    ids=["Open MPI", "MPICH", "racks", "Windows", "PBS"],
)
def test_hostfiles(tmp_path: Path, text: str, hosts: list[Host]) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    assert from_file(str(path)) == hosts


@pytest.mark.parametrize(
    "text",
    ["", ",", "h1:", "h1:0", "h1:-1", "h1:x", "h1:1.5", "h1,h1", "h1:2,h1:3", "h 1", "h1;rm", "-oProxyCommand=x"],
)
def test_what_is_no_list_of_hosts(text: str) -> None:
    with pytest.raises(LaunchError, match="--hosts"):
        from_option(text)


@pytest.mark.parametrize("text", ["[fe80::1]:2", "[::1]", "fe80::1", "h1,[2001:db8::1]:4"])
def test_ipv6_addresses_are_refused(text: str) -> None:
    """MPI's lists of hosts cannot hold them."""
    with pytest.raises(LaunchError, match="is an IPv6 address; write the host's name"):
        from_option(text)


@pytest.mark.parametrize("slots", ["65537", "99999999", "9" * 5000])
def test_more_slots_than_any_machine_has_are_refused(slots: str) -> None:
    with pytest.raises(LaunchError, match=r"--hosts: host h1 has .* slots; a host has room for 65536 elements at most"):
        from_option(f"h1:{slots}")
    assert from_option("h1:65536") == [Host("h1", 65536)]


@pytest.mark.parametrize("text", ["h1\nh1:2\n", "h1:2\nh1\n", "h1\nh1 rack=a\n", "h1 slots=2\nh1 slots=2\n"])
def test_only_names_alone_may_be_there_again(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hosts"
    path.write_text(text)
    with pytest.raises(LaunchError, match="host h1 is there twice; say all its slots at once"):
        from_file(str(path))


def test_slots_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("h1:3 slots=2")
    with pytest.raises(LaunchError, match="line 1: the slots of host h1 are there twice"):
        from_file(str(path))


@pytest.mark.parametrize(
    ("text", "said"), [("x", "cannot be read; name the hosts"), ("1", "start bsprun without srun")]
)
def test_what_is_no_list_of_counts(text: str, said: str) -> None:
    with pytest.raises(LaunchError, match=said):
        repeated(text, 2)


def test_the_hosts_of_a_heterogeneous_allocation_must_be_named() -> None:
    """Under salloc its variables name none without a component; under sbatch, only those of the first."""
    for more in ({}, {"SLURM_JOB_NODELIST": "h1"}):
        with pytest.raises(LaunchError, match=r"heterogeneous, of 2 components: .* name the hosts with --hosts"):
            from_slurm({"SLURM_JOB_ID": "3", "SLURM_HET_SIZE": "2", **more})


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 70)), min_size=1, max_size=6))
def test_counts_as_slurm_writes_them(runs: list[tuple[int, int]]) -> None:
    text = ",".join(f"{count}(x{times})" if times > 1 else str(count) for times, count in runs)
    counts = [count for times, count in runs for _ in range(times)]
    assert repeated(text, len(counts)) == counts
    with pytest.raises(LaunchError):
        repeated(text, len(counts) + 1)


@given(st.lists(st.integers(1, 8), min_size=1, max_size=10), st.data())
def test_elements_fill_hosts_in_their_order(slots: list[int], data: st.DataObject) -> None:
    hosts = [Host(f"h{k}", count) for k, count in enumerate(slots)]
    elements = data.draw(st.integers(1, sum(slots)))
    found = placed(hosts, elements)
    assert sum(count for _, count in found) == elements
    assert [host for host, _ in found] == hosts[: len(found)]
    assert all(count == host.slots for host, count in found[:-1])
    with pytest.raises(LaunchError, match=f"have {sum(slots)} slots"):
        placed(hosts, sum(slots) + 1)


def test_this_machine_is_known_by_its_names() -> None:
    assert is_here("localhost")
    assert is_here("127.0.0.1")
    assert not is_here("no-such-host.invalid")
    assert not is_here("x" * 300)
