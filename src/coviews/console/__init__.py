"""What a person sees in the terminal while work goes on."""
