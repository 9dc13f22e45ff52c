"""Files that are written completely or not at all."""

from __future__ import annotations

import pytest

from bsp.cost.whole_file import write_text


def test_a_full_disk_is_told_with_the_files_name() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_text("a text", "/dev/full")
