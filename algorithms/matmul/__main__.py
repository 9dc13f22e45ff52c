"""`python -m bsp.algorithms.matmul --study`."""

import sys

from bsp.algorithms.matmul.study import main

sys.exit(main())
