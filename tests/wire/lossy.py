"""A network that loses messages, between a publisher and its readers."""

from __future__ import annotations

import random
import threading
from typing import Any

import zmq

from tests.workers import Worker


class Lossy:
    """Forwards what a publisher sends, except for what it loses."""

    def __init__(self, source: str) -> None:
        self.context: zmq.Context[Any] = zmq.Context()
        self.sub, self.pub = self.context.socket(zmq.SUB), self.context.socket(zmq.PUB)
        self.sub.subscribe(b"")
        self.sub.connect(source)
        self.pub.bind("tcp://127.0.0.1:*")
        self.endpoint = self.pub.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
        self.draw, self.loses, self.lost = random.Random(1), 0.0, 0
        self.ends = threading.Event()
        self.worker = Worker(self._run)
        self.worker.start()

    def _run(self) -> None:
        while not self.ends.is_set():
            if self.sub.poll(10):
                frames = self.sub.recv_multipart()
                if self.draw.random() < self.loses:
                    self.lost += 1
                else:
                    self.pub.send_multipart(frames)

    def close(self) -> None:
        self.ends.set()
        self.worker.end(60)
        self.context.destroy(linger=0)
