"""Pausing and resuming the active profiler at a change of turns.

Python's profilers watch a thread, and the processes of an element take turns in one.  So a profiler is removed
when its process ends its turn, and installed again when the process goes on.  It keeps its record of the calls under
way, so the time of the others' turns counts as time in the boundary.

cProfile keeps a stack of calls.  When it is removed it has seen the beginning of two calls whose return it will not
see (`paused`, and the call that removes it).  So when it goes on it must see two returns of calls that it has not
seen begin: those of `_go_on` and `resumed`.
"""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 12):
    _TOOL = sys.monitoring.PROFILER_ID
    _EVENTS = [e for name, e in vars(sys.monitoring.events).items() if name.isupper() and e]

    def active() -> Any:
        """Return None if no profiler is active."""
        return sys.getprofile() or sys.monitoring.get_tool(_TOOL)

    def paused() -> Any:
        """Remove the active profiler; return what `resumed` needs, or None if there is none."""
        name = sys.monitoring.get_tool(_TOOL)
        if name is None:
            profile = sys.getprofile()
            sys.setprofile(None)
            return None if profile is None else (None, 0, profile)
        events = sys.monitoring.get_events(_TOOL)
        sys.monitoring.set_events(_TOOL, 0)
        callbacks = {e: sys.monitoring.register_callback(_TOOL, e, None) for e in _EVENTS}
        sys.monitoring.free_tool_id(_TOOL)
        return name, events, callbacks

    def resumed(profiler: Any) -> None:
        """Install what `paused` has removed."""
        name, events, kept = profiler
        if name is None:
            sys.setprofile(kept)
            return
        sys.monitoring.use_tool_id(_TOOL, name)
        for event, callback in kept.items():
            sys.monitoring.register_callback(_TOOL, event, callback)
        _go_on(events)

    def _go_on(events: int) -> None:
        """Set the events of the installed profiler; its own function, as cProfile sees its return (see the module)."""
        sys.monitoring.set_events(_TOOL, events)

else:
    active = sys.getprofile  # returns None if no profiler is active

    def paused() -> Any:
        """Remove the active profiler; return what `resumed` needs, or None if there is none."""
        profile = sys.getprofile()
        if profile is not None:
            sys.setprofile(None)
        return profile

    def resumed(profiler: Any) -> None:
        """Install what `paused` has removed."""
        if hasattr(profiler, "enable"):
            _go_on(profiler)
        else:
            sys.setprofile(profiler)

    def _go_on(profiler: Any) -> None:
        """Enable the profiler; its own function, because cProfile sees its return (see the module)."""
        profiler.enable()
