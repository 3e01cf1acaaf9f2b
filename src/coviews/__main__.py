"""`python -m coviews` is the command `coviews`."""

import sys

from coviews.cli import main

sys.exit(main())
