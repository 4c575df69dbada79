"""A command handler that answers one task and leaves with status 0, as programs do that serve once."""

import json
import sys

task = json.loads(sys.stdin.readline())
print(json.dumps({"result": task["args"]}), flush=True)
