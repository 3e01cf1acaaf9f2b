"""The page of a run, and the charts on it; it reads run folders."""
