"""A client of the control socket, written from docs/PROTOCOL.md alone: submits, streams and cancels.

usage: client.py SOCKET        (the daemon needs the handlers echo, count and gated)
"""
import json
import socket
import struct
import sys

SUBMIT, GET, CANCEL, LIST, STATS, PING, FORGET = range(1, 8)
HELLO, ACCEPTED, EVENT, RESULT, ERROR, STATUS, TASKS, NUMBERS, PONG, OK = range(65, 75)
WANT_RESULT, WANT_STREAM, KEEP, ACK = 1, 2, 4, 8
HEADER = struct.Struct("<IBBHQ")  # length, kind, flags, zero, tag


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.stream = self.socket.makefile("rb")
        kind, _, self.hello = self.receive()
        if kind != HELLO or self.hello["protocol"] != 1:
            sys.exit(f"expected HELLO of protocol 1, got kind {kind}: {self.hello}")

    def send(self, kind, flags, tag, words):
        payload = json.dumps(words).encode()
        self.socket.sendall(HEADER.pack(len(payload), kind, flags, 0, tag) + payload)

    def receive(self):
        length, kind, _, _, tag = HEADER.unpack(self.stream.read(HEADER.size))
        return kind, tag, json.loads(self.stream.read(length))


client = Client(sys.argv[1])

# Many at once: answers come in any order, and the tag tells them apart.
for tag in range(100):
    client.send(SUBMIT, WANT_RESULT, tag, {"handler": "echo", "args": {"n": tag}})
for _ in range(100):
    kind, tag, outcome = client.receive()
    assert (kind, outcome["status"], outcome["result"]) == (RESULT, 0, {"n": tag}), outcome
print("submitted 100")

# A stream: events by offset, then the result.
client.send(SUBMIT, WANT_STREAM, 1, {"handler": "count", "args": {"n": 5}})
while True:
    kind, tag, words = client.receive()
    if kind == RESULT:
        break
    print("event", words["offset"], words["partial"])
print("streamed", words["result"])

# A task that would wait for ever is cancelled: OK for the one, RESULT for the other.
client.send(SUBMIT, WANT_RESULT | ACK, 2, {"handler": "gated", "task_id": "stuck"})
assert client.receive() == (ACCEPTED, 2, {"task_id": "stuck"})
client.send(CANCEL, 0, 3, {"task_id": "stuck"})
answers = {tag: (kind, words) for kind, tag, words in (client.receive(), client.receive())}
assert answers[3] == (OK, {}), answers
print("cancelled", answers[2][1]["status"], answers[2][1]["error"])

# A mistake is answered, and the connection lives.
client.send(SUBMIT, WANT_RESULT, 4, {"handlr": "echo"})
kind, tag, words = client.receive()
print("refused", kind == ERROR, words["error"], words["line"], words["column"])
client.send(PING, 0, 5, "still there?")
assert client.receive() == (PONG, 5, "still there?")
