"""A command handler that does its work and then neither minds the end of its input nor SIGTERM."""

import json
import os
import signal
import sys

signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    print(json.dumps({"result": {"pid": os.getpid()}}), flush=True)
while True:
    signal.pause()
