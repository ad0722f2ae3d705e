"""A receiver that is given its stream bit by bit."""

import fcntl
import os
import struct
import subprocess
import termios

from harness import LSMFS
from until import until

POLL = {7, 271} if os.uname().machine == "x86_64" else {73}  # poll(2) and ppoll(2)


class Fed:
    def __init__(self, folder):
        self._process = subprocess.Popen([LSMFS, "receive", folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)

    def give(self, data):
        """Returns when all of it is done, or the receiver has ended."""
        try:
            self._process.stdin.write(data)
        except BrokenPipeError:
            return
        until(lambda: self._process.poll() is not None or self._left() == 0 and self._waits(), "the receiver")

    def _left(self):
        return struct.unpack("i", fcntl.ioctl(self._process.stdin, termios.FIONREAD, bytes(4)))[0]

    def _waits(self):
        try:
            with open(f"/proc/{self._process.pid}/syscall", encoding="ascii") as file:
                call = file.read().split()[0]
        except OSError:
            return False
        return call.lstrip("-").isdigit() and int(call) in POLL

    def end(self, data):
        out, said = self._process.communicate(data)
        return self._process.returncode, out.decode(errors="replace"), said.decode(errors="replace")
