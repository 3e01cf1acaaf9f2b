"""How good an encoder is: features, kNN, linear probes, fine-tuning, and quality without labels."""
