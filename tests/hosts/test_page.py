"""docs/cluster.md tells the truth: its commands print on test hosts what it shows, its batch script runs."""

from __future__ import annotations

import re

import pytest
from hosts.cluster import ROOT
from hosts.slurm import SlurmCluster

pytestmark = pytest.mark.thorough

_FENCE = re.compile(r"^```\{code-block\} (\w+)\n(?::caption: (\S+)\n\n)?(.*?)^```$", re.M | re.S)
_OF_A_MACHINE = [
    (re.compile(r"works: .*, [\d.]+ [MGT]B free"), "works: CPU, MEMORY free"),
    (re.compile(r"batch job \d+"), "batch job NUMBER"),
]


def masked(text: str) -> str:
    for pattern, word in _OF_A_MACHINE:
        text = pattern.sub(word, text)
    return text


def test_commands_print_what_the_page_shows(allocation: SlurmCluster) -> None:
    fences = _FENCE.findall((ROOT / "docs/cluster.md").read_text())
    for _, name, text in fences:
        if name:
            (allocation.share / name).write_text(text)
    for host in allocation.hosts:
        host.run(["sh", "-c", "mkdir /run/image; mount --rbind / /run/image"], check=True)  # a container's root
    for language, _, text in fences:
        for part in re.split(r"^\$ ", text, flags=re.M)[1:] if language == "console" else []:
            command, _, output = part.partition("\n")
            done = allocation["h1"].run(["bash", "-o", "pipefail", "-c", f"{command} 2>&1"])
            assert masked(done.stdout) == masked(output), f"$ {command}\n{done.stdout}"
