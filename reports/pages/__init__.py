"""The static pages of a run."""

from reports.pages.write import write_pages

__all__ = ["write_pages"]
