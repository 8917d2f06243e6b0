"""The static pages of a run."""

from reports.pages.write import FOLDER, write_pages

__all__ = ["FOLDER", "write_pages"]
