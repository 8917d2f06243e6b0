"""The static pages of a run."""

from reports.pages.write import write_comparison, write_pages

__all__ = ["write_comparison", "write_pages"]
