"""Which views are useful for these images: factors are tried in short pilot trainings, and judged by few labels."""
