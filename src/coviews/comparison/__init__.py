"""The same training with different views (or other choices), several seeds each: who wins, and by more than chance?"""
