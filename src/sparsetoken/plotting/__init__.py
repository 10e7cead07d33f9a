"""Figures: what a panel shows, and how it is drawn."""
