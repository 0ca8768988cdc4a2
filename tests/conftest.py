"""One thread a test process: tests run side by side, and threads that wait for each other cost more than they bring."""

import os

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
