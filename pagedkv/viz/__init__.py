"""Pictures of pools, from their recordings: widgets that move, and the same in print."""

from pagedkv.viz.grid import BlockGrid, side_by_side_grids
from pagedkv.viz.plot import Picture, plot_grid, plot_timeline

__all__ = ["BlockGrid", "Picture", "plot_grid", "plot_timeline", "side_by_side_grids"]
