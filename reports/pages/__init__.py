"""The static pages of a run."""

from reports.pages.write import figures_folder, write_pages

__all__ = ["figures_folder", "write_pages"]
