"""Pictures of a run, for papers (SVG and PNG) and for the page."""

from reports.plots.data import comparison_data, figure_data
from reports.plots.write import Picture, draw_figures, write_figures

__all__ = ["Picture", "comparison_data", "draw_figures", "figure_data", "write_figures"]
