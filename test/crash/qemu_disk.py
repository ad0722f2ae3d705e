"""A loop device whose requests pass through qemu's block drivers, which write them down or have them fail.

    loop device -> a file that qemu-storage-daemon exports through FUSE -> drivers -> the image

The loop device does not use direct I/O: its one thread then sends writes and flushes one after the other. At the same time
they would overwrite each other, since the exports of qemu 7.2 read all requests into one buffer.
"""

import contextlib
import json
import os
import socket
import subprocess

import loop
import workspace
from until import PATIENCE, until


def recording(image, log):
    """Writes all requests down in `log`, a file of zeros that is large enough; see power_log.py. Nothing waits for the disk below."""
    cache = {"no-flush": True}
    return [{"driver": "file", "node-name": "disk", "filename": image, "discard": "unmap", "cache": cache},
            {"driver": "file", "node-name": "log", "filename": log, "cache": cache},
            {"driver": "blklogwrites", "node-name": "top", "file": "disk", "log": "log", "log-sector-size": 512, "discard": "unmap"}]


def breaking(image, kind, once):
    """Passes everything on until QemuDisk.use("broken"): from then on a request of the kind fails with EIO, and all later ones
    unless `once`. `kind`: "read", "write" or "flush"."""
    return [{"driver": "file", "node-name": "disk", "filename": image},
            {"driver": "blkdebug", "node-name": "broken", "image": "disk",
             "inject-error": [{"event": "none", "iotype": kind, "errno": 5, "once": once}]},
            {"driver": "raw", "node-name": "top", "file": "disk"}]


@contextlib.contextmanager
def breaking_below(volume, kind, once):
    """A volume of an image, mounted on a disk of which requests of a kind can be made to fail: see breaking()."""
    disk = QemuDisk(volume.folder, breaking(volume.image, kind, once))
    try:
        volume.device = disk.device
        volume.mount("sync_interval=0")
        try:
            yield disk
        finally:
            volume.umount()
    finally:
        volume.device = volume.image
        disk.close()


class QemuDisk:
    """`drivers`: of which the last, "top", is what the device shows."""

    def __init__(self, folder, drivers):
        self._file = os.path.join(folder, "exported")
        self._socket = os.path.join(folder, "monitor")
        self._words = os.path.join(folder, "qemu.log")
        self.device = None
        with open(self._file, "wb"):
            pass
        command = ["qemu-storage-daemon"]
        for driver in drivers:
            command += ["--blockdev", json.dumps(driver)]
        command += ["--chardev", f"socket,id=monitor,path={self._socket},server=on,wait=off", "--monitor", "chardev=monitor", "--export",
                    json.dumps({"type": "fuse", "id": "disk", "node-name": "top", "mountpoint": self._file, "writable": True})]
        with open(self._words, "wb") as words:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=words, stderr=words)
        try:
            self._wait_for_export()
            self.device = loop.attach(self._file, direct=False)
        except BaseException:
            self.close()
            raise

    def _wait_for_export(self):
        until(lambda: self._process.poll() is not None or workspace.mounts_below(self._file), "the export of qemu-storage-daemon")
        if self._process.poll() is not None:
            with open(self._words, encoding="utf-8", errors="replace") as words:
                raise AssertionError(f"qemu-storage-daemon exports nothing: {words.read()}")

    def use(self, node):
        """From now on requests go to that driver."""
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(PATIENCE)
            peer.connect(self._socket)
            with peer.makefile("rw", encoding="utf-8") as lines:
                lines.readline()  # the greeting
                _execute(lines, "qmp_capabilities")
                _execute(lines, "blockdev-reopen", options=[{"driver": "raw", "node-name": "top", "file": node}])

    def close(self):
        if self.device:
            loop.detach(self.device)
            self.device = None
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for point in workspace.mounts_below(self._file):
            subprocess.run(["umount", "-l", point], check=True)


def _execute(lines, command, **arguments):
    lines.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
    lines.flush()
    while True:
        answer = json.loads(lines.readline())
        if "error" in answer:
            raise AssertionError(f"{command}: {answer['error']['desc']}")
        if "return" in answer:
            return
