"""The builds that elements compute with: equal bytes presume one Python, NumPy, BLAS and kind of CPU (D7)."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

Build = tuple[tuple[str, str], ...]


@cache
def build() -> Build:
    """Return the versions that this element computes with, as (name, value) pairs."""
    import numpy as np  # a host where it is missing says so

    config = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {}) if isinstance(config, dict) else {}
    return (
        ("Python", platform.python_version()),
        ("NumPy", np.__version__),
        ("BLAS", f"{blas.get('name')} {blas.get('version')}"),
        ("CPU", _cpu()),
    )


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(("model name", "CPU part")):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def version_of(package: str) -> str:
    """Return the version of an installed package; "missing" if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def difference(builds: Mapping[int, Build]) -> str | None:
    """Return one sentence on what differs between the builds, by element, or None if nothing does."""
    parts, (first, known) = [], next(iter(builds.items()))
    for k, (name, value) in enumerate(known):
        others = [(element, found[k][1]) for element, found in builds.items() if found[k][1] != value]
        if others:
            element, other = others[0]
            parts.append(f"{name} is {value} on element {first} and {other} on element {element}")
    if not parts:
        return None
    return "; ".join(parts) + ": results may differ in their last bits from those on equal elements (D7)"
