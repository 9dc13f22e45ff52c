"""From expressions to supersteps: graphs, layouts, stages, plans, and their execution."""
