"""A program that is stopped before each of its system calls that change something, by ptrace(2)."""

import ctypes
import os
import signal
import struct
import subprocess

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_TRACEME, _SYSCALL, _SETOPTIONS, _GET_SYSCALL_INFO = 0, 24, 0x4200, 0x420E
_TRACESYSGOOD, _EXITKILL = 1, 1 << 20
_INFO = struct.Struct("=B3xIQQQ6Q")
_ENTRY = 1
_X86_64 = {"write": 1, "ioctl": 16, "pwrite64": 18, "fsync": 74, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "unlink": 87, "chmod": 90, "fchmod": 91, "setxattr": 188, "lsetxattr": 189,
           "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198, "fremovexattr": 199, "openat": 257, "mkdirat": 258, "mknodat": 259, "fchownat": 260, "unlinkat": 263, "renameat": 264, "linkat": 265,
           "symlinkat": 266, "fchmodat": 268, "utimensat": 280, "fallocate": 285, "syncfs": 306, "renameat2": 316, "fchmodat2": 452}
_OTHERS = {"fsetxattr": 7, "lsetxattr": 6, "setxattr": 5, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16, "ioctl": 29, "mknodat": 33, "mkdirat": 34, "unlinkat": 35, "symlinkat": 36,
           "linkat": 37, "renameat": 38, "ftruncate": 46, "fallocate": 47, "fchmod": 52, "fchmodat": 53, "fchownat": 54, "openat": 56, "write": 64, "pwrite64": 68, "fsync": 82, "utimensat": 88,
           "syncfs": 267, "renameat2": 276, "fchmodat2": 452}
_NAMES = {number: name for name, number in (_X86_64 if os.uname().machine == "x86_64" else _OTHERS).items()}
_TERMINAL_IOCTL = 0x5401


def _ptrace(request, pid, address=None, data=None):
    done = _libc.ptrace(request, pid, address, data)
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace: {os.strerror(code)}")
    return done


class Traced:
    """`user`: who runs it. Its output is in `said`, as (standard output, standard error), when it has ended."""

    def __init__(self, command, stdin, user=0):
        with open(stdin, "rb") as file:
            ids = {"user": user, "group": user, "extra_groups": []} if user else {}
            self._process = subprocess.Popen(command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: _ptrace(_TRACEME, 0), **ids)
        self.pid = self._process.pid
        self.said = ("", "")
        self.code = None  # of its end
        self._wait()
        _ptrace(_SETOPTIONS, self.pid, None, _TRACESYSGOOD | _EXITKILL)

    def _wait(self):
        """The signal that it has stopped for; None: it has ended."""
        _, status = os.waitpid(self.pid, 0)
        if os.WIFSTOPPED(status):
            return os.WSTOPSIG(status)
        self.code = self._process.returncode = os.waitstatus_to_exitcode(status)
        self.said = tuple(stream.read().decode(errors="replace") for stream in (self._process.stdout, self._process.stderr))
        for stream in (self._process.stdout, self._process.stderr):
            stream.close()
        return None

    def run(self, stopped):
        """To its end. Before each call that may change something it is stopped, and `stopped` is called with its name. What that returns is a
        signal for it, or None."""
        given = None
        while True:
            _ptrace(_SYSCALL, self.pid, None, given)
            given = self._wait()
            if self.code is not None:
                return
            if given == signal.SIGTRAP | 0x80:
                given = None
                name = self._changes()
                wanted = stopped(name) if name else None
                if wanted:
                    os.kill(self.pid, wanted)
                if wanted == signal.SIGKILL:
                    self._wait()
                    return
            elif given == signal.SIGTRAP:
                given = None  # another program, as after exec

    def _changes(self):
        """The name of the call that it is about to make, if that changes something."""
        buffer = ctypes.create_string_buffer(128)
        _ptrace(_GET_SYSCALL_INFO, self.pid, len(buffer), buffer)
        kind, _, _, _, number, first, second, third, *_ = _INFO.unpack_from(buffer.raw)
        name = _NAMES.get(number) if kind == _ENTRY else None
        if name == "openat" and not third & os.O_CREAT or name == "ioctl" and second == _TERMINAL_IOCTL or name == "write" and first <= 2:
            return None
        return name
