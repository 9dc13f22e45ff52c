"""`run(main, nprocs=...)` is `bsp.run`.

Started by mpiexec, every rank runs the same tests and the ranks are the elements, so each test in
tests/bsp is also a test of the exchange between elements (see tests/mpi/test_world.py).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
import thinning
from tests_run import IN_WORLD, run_program

from bsp.command.launch import BLAS_VARIABLES

# Tests run side by side, one on each core: threads of BLAS beside them wait for each other (a fifth of the CPU time of
# the tests of QR is left).  It is read when NumPy is imported, by jobs too, and nothing above imports NumPy.
os.environ.update(dict.fromkeys(BLAS_VARIABLES, "1"))

# Jobs run side by side, too: ranks that wait leave their core to others (half of the CPU time of small jobs is left),
# and two jobs of two ranks are not bound to the same two cores.
os.environ.update({"OMPI_MCA_mpi_yield_when_idle": "1", "PRTE_MCA_hwloc_default_binding_policy": "none"})

if "BSP_TESTS_TEMP" in os.environ:  # ranks that share pytest's temporary folder would tidy up each other's
    own_folder = os.path.join(os.environ["BSP_TESTS_TEMP"], os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    os.makedirs(own_folder, exist_ok=True)
    os.environ["PYTEST_DEBUG_TEMPROOT"] = own_folder

# what `bsp probe` has measured here would change which algorithms run, and what they cost
os.environ["BSP_MACHINES"] = os.path.join(os.path.dirname(__file__), "no-machines")

# the key of whoever runs the tests is none of their business
os.environ["BSP_CHECKPOINT_KEY"] = "a key for the checkpoints of tests"

# every rank must draw the same examples
hypothesis.settings.register_profile(
    "same everywhere",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100 if thinning.ALL and not IN_WORLD else 20,
)
hypothesis.settings.load_profile("same everywhere")


_CHROMIUM = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1280,900"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One headless Chromium, at home in a temporary folder."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium with chromedriver on this machine")
    from selenium import webdriver

    home = tmp_path_factory.mktemp("home")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in [*_CHROMIUM.split(), f"--user-data-dir={home / 'data'}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    environment = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    service = webdriver.ChromeService(driver, env={**environment, "HOME": str(home)})
    chrome = webdriver.Chrome(options=options, service=service)
    yield chrome
    chrome.quit()


@pytest.fixture
def run() -> Callable[..., list[Any]]:
    """`run(main, *args, nprocs=p)`: the results of main(proc, *args) by pid."""
    return run_program


@pytest.hookimpl(tryfirst=True)  # before -m looks at marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests first.  In a job, tests that start jobs of their own or look at this interpreter have no place."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    if IN_WORLD:
        items[:] = [item for item in items if not (item.get_closest_marker("jobs") or item.get_closest_marker("solo"))]
    rest = thinning.left_out(items, IN_WORLD)
    if thinning.ALL:
        for item in rest:
            item.add_marker("rest")
    elif rest and not any("::" in word for word in config.args):  # a test that is named is run
        config.hook.pytest_deselected(items=rest)
        out = set(rest)
        items[:] = [item for item in items if item not in out]
