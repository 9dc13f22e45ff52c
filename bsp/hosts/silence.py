"""How long the other side of a connection may be silent before it is taken for dead."""

from __future__ import annotations

LOOK_SECONDS = 0.25  # between looks at what is silent; each side says something as often
_LIMIT = 14  # looks: 3.5 s
_LONGEST_LIMIT = 48  # looks: 12 s


class Silence:
    """Counts the looks since the other side was last heard.

    A look that comes late counts once: whoever did not run could not hear.  On a loaded machine the other side may not
    run for seconds, above all while a host's elements start; so the limit is the longest until the job runs, and grows
    with the silences that turned out to be none.
    """

    def __init__(self) -> None:
        self.looks = 0
        self._longest = 0

    def heard(self) -> None:
        """Begin anew."""
        self._longest, self.looks = max(self._longest, self.looks), 0

    def look(self, running: bool) -> bool:
        """Count a look; True if the silence is too long for a job that is `running` or not yet."""
        self.looks += 1
        limit = max(_LIMIT, 3 * self._longest) if running else _LONGEST_LIMIT
        return self.looks > min(limit, _LONGEST_LIMIT)
