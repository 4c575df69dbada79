#!/usr/bin/env python3
"""Asks a queue of millpond over NATS, from a program that has neither millpond nor a NATS library.

    nats-server -js &
    millpond serve --config examples/nats/millpond.toml &
    python3 examples/nats/ask.py "a text whose words are counted"

It shows all there is to it: publish a request to `mill.QUEUE.normal`, wait for the server's word that it is kept, then
read the entry of the task in the bucket of results. A real program would use the NATS client of its language.
"""

import json
import os
import socket
import sys
import time
import uuid

HOST, PORT = os.environ.get("NATS", "127.0.0.1:4222").rsplit(":", 1)
QUEUE = os.environ.get("QUEUE", "demo")


class Nats:
    """Just enough of the NATS protocol: one request, one answer."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.lines = self.socket.makefile("rb")
        self.inbox = "_INBOX." + uuid.uuid4().hex
        self.lines.readline()  # INFO
        options = {"verbose": False, "headers": True, "no_responders": True, "name": "ask.py"}
        self.send(f"CONNECT {json.dumps(options)}\r\nSUB {self.inbox} 1\r\n".encode())

    def send(self, data):
        self.socket.sendall(data)

    def ask(self, subject, payload=b"", headers=None):
        """Publishes with a reply subject, and returns the status and the payload of the answer."""
        if headers:
            head = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
            head = head.encode()
            line = f"HPUB {subject} {self.inbox} {len(head)} {len(head) + len(payload)}\r\n"
            self.send(line.encode() + head + payload + b"\r\n")
        else:
            self.send(f"PUB {subject} {self.inbox} {len(payload)}\r\n".encode() + payload + b"\r\n")
        return self.answer()

    def answer(self):
        while True:
            words = self.lines.readline().split()
            if not words:
                sys.exit("the server closed the connection")
            if words[0] == b"PING":
                self.send(b"PONG\r\n")
            elif words[0] == b"-ERR":
                sys.exit(b" ".join(words).decode())
            elif words[0] == b"MSG":
                return 200, self.lines.read(int(words[-1]) + 2)[:-2]
            elif words[0] == b"HMSG":
                head, total = int(words[-2]), int(words[-1])
                data = self.lines.read(total + 2)[:-2]
                first = data[:head].split(b"\r\n", 1)[0].split()
                return (int(first[1]) if len(first) > 1 else 200), data[head:]


def main():
    text = " ".join(sys.argv[1:]) or "one two three"
    nats = Nats(HOST, int(PORT))
    name = "ask-" + uuid.uuid4().hex
    request = {"task_id": name, "handler": "count_words", "args": {"text": text}, "retries": 3}
    # The same id once more, after a lost answer for instance, is the same task.
    status, answer = nats.ask(f"mill.{QUEUE}.normal", json.dumps(request).encode(), {"Nats-Msg-Id": name})
    if status == 503:
        sys.exit(f"nobody has opened the queue {QUEUE}: start a daemon first")
    kept = json.loads(answer)
    if "error" in kept:
        sys.exit(kept["error"]["description"])
    bucket, key = f"MILL_{QUEUE}_results", "s-" + name
    for _ in range(600):
        status, entry = nats.ask(f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.{key}")
        if status == 200 and json.loads(entry)["state"] != "retrying":
            outcome = json.loads(entry)["outcome"]
            print(json.dumps(outcome.get("result", outcome)))
            sys.exit(0 if outcome["status"] == 0 else 1)
        time.sleep(0.05)
    sys.exit("no result within 30 seconds")


if __name__ == "__main__":
    main()
