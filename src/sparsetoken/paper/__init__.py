"""The executable paper: its studies, claims and report."""
