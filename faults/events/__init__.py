"""What happened in a nonstop job: its event log, and the live view."""
