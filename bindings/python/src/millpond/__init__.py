"""millpond: submit tasks to a pool in this program or in a daemon, and get their results.

    import millpond

    with millpond.Pool.attach() as pool:
        task = pool.submit("echo", hello="world")
        print(task.result(timeout=5)["hello"])

A task is a `concurrent.futures.Future` that can also be awaited, and whose partial results can be read while it runs.
Everything millpond refuses or reports is a `millpond.Error` with a code, its name and a message.
"""

from ._errors import Code, Error
from ._executor import Executor
from ._library import library_version
from ._pool import Pool
from ._stream import Event, Events, Stream
from ._task import Task

__all__ = ["Code", "Error", "Event", "Events", "Executor", "Pool", "Stream", "Task", "library_version"]
__version__ = "0.1.0"
