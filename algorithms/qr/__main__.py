"""python -m bsp.algorithms.qr --study"""

import sys

from bsp.algorithms.qr.study import main

sys.exit(main())
