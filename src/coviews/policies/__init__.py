"""Who decides what is done: fixed and learned view sources, and the queue."""
