"""A command handler that does what its task says, good or bad: `{"do": "segfault"}`.

One program with every mood, so that the same process can be good for some tasks and bad for one.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time


def say(**words):
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def complain(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def wait_for(path):
    """Until the test makes the file. The test has a deadline, and ends us if it is over."""
    while not os.path.exists(path):
        time.sleep(0.002)


def wait_for_company(folder, count):
    """Until so many processes are here at once."""
    open(os.path.join(folder, str(os.getpid())), "w").close()
    while len(os.listdir(folder)) < count:
        time.sleep(0.002)


def hang(args):
    if args.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "note" in args:
        def leave(number, frame):
            open(args["note"], "w").write("asked to end")
            os._exit(0)

        signal.signal(signal.SIGTERM, leave)
    say(partial={"pid": os.getpid()})
    while True:
        signal.pause()


def breed(args):
    """Leaves a child behind that would outlive us."""
    child = subprocess.Popen(["sleep", "1000"])
    say(partial={"pid": child.pid})
    while True:
        signal.pause()


def talk(args):
    for number in range(args["count"]):
        say(partial=number)
        if number % 100 == 0:
            say(progress=number / args["count"])
    say(log="all said")


def flood(args):
    line = "x" * 79 + "\n"
    for _ in range(args["lines"] // 1000):
        sys.stderr.write(line * 1000)
    complain("the last line")


def burn(args):
    while True:
        pass


def one_long_line(args):
    block = b"x" * (1 << 20)
    sys.stdout.buffer.write(b'{"result": "')
    for _ in range(args["megabytes"]):
        sys.stdout.buffer.write(block)
    sys.stdout.buffer.write(b'"}\n')
    sys.stdout.flush()


def close_stdout(args):
    os.close(1)
    while True:
        signal.pause()


def speak_later(args):
    def speak():
        wait_for(args["when"])
        say(result="nobody asked")

    threading.Thread(target=speak, daemon=True).start()


def exit_with(args):
    complain("about to leave")
    os._exit(args.get("status", 3))


MOODS = {
    "allocate": lambda args: bytearray(args["bytes"]),
    "breed": breed,
    "burn": burn,
    "close_stdout": close_stdout,
    "complain": lambda args: complain(args["text"]),
    "company": lambda args: wait_for_company(args["folder"], args["count"]),
    "echo": lambda args: None,
    "exit": exit_with,
    "flood": flood,
    "garbage": lambda args: print("hello", flush=True),
    "hang": hang,
    "kill": lambda args: os.kill(os.getpid(), args["signal"]),
    "large_partial": lambda args: say(partial="x" * args["bytes"]),
    "long_line": one_long_line,
    "segfault": lambda args: ctypes.string_at(0),
    "speak_later": speak_later,
    "talk": talk,
    "throw": lambda args: {}["nothing"],
    "wait": lambda args: wait_for(args["for"]),
}


def main():
    for line in sys.stdin:
        task = json.loads(line)
        args = task["args"]
        do = args.get("do", "echo")
        if do == "fail":
            say(error=args["error"])
        elif do == "twice":
            sys.stdout.write('{"result": 1}\n{"result": 2}\n')
            sys.stdout.flush()
        elif do == "wrong_id":
            say(task_id="somebody else's", result=1)
        elif do == "show":
            seen = {"task": task, "directory": os.getcwd(), "mood": os.environ.get("MOOD")}
            say(task_id=task["task_id"], result=seen)
        else:
            MOODS[do](args)
            say(result={"pid": os.getpid(), "n": args.get("n")})
    while "STAY" in os.environ:
        signal.pause()
    if "BYE" in os.environ:
        open(os.path.join(os.environ["BYE"], str(os.getpid())), "w").close()


main()
