"""A command handler that never reads: what it is asked stays in its pipe."""

import signal
import sys

if "answer" in sys.argv:
    # Whatever this is an answer to, it is not the task.
    print('{"result": "early"}', flush=True)
if "stay" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    signal.pause()
