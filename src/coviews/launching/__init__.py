"""Where trainings run: on this machine, or wherever submitit or Ray starts them."""
