"""What all tests need of the process they run in."""

import os
import signal

# One thread each: tests run side by side, and threads that wait for each other cost more than they bring.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# A shell's background job ignores Ctrl-C, and so would every program that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
