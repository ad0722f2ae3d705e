"""What a daemon takes while it works: a row of a table (CSV) now and then."""

import collections
import csv
import json
import os
import threading
import time
import traceback

import harness


class Sampler:
    """`ballast`: of which the share of the space that is used is asked."""

    COLUMNS = ["seconds", "rss_bytes", "threads", "descriptors", "used_share", "files", "tables", "levels", "table_free_bytes", "largest_free_bytes",
               "cache_bytes", "memtable_bytes", "blob_bytes", "stat_ms"]

    def __init__(self, volume, path, pause, failed):
        self._volume, self._path, self._pause, self._failed = volume, path, pause, failed
        self.rows = []
        self._kinds = []  # of each sample, how many threads there are of a name
        self._stop = threading.Event()
        [(self._daemon, _)] = volume.daemons()  # now: later the commands of workers look like daemons
        self._thread = threading.Thread(target=self._run, name="samples")
        self._thread.start()

    def _run(self):
        begin = time.monotonic()
        try:
            with open(self._path, "w", encoding="ascii", newline="") as file:
                table = csv.DictWriter(file, self.COLUMNS)
                table.writeheader()
                while not self._stop.wait(self._pause):
                    row = {"seconds": round(time.monotonic() - begin, 1)} | self._look()
                    self.rows.append(row)
                    table.writerow(row)
                    file.flush()
        except Exception:
            self._failed(f"samples: {traceback.format_exc()}")

    def _look(self):
        pid = self._daemon
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            status = dict(line.split(":", 1) for line in file)
        self._kinds.append(collections.Counter(harness.comm(f"{pid}/task/{thread}") for thread in os.listdir(f"/proc/{pid}/task")))
        facts = os.statvfs(self._volume.point)
        # A name that nobody has asked for, which the kernel cannot answer.
        asked = time.monotonic()
        if os.path.lexists(self._volume.path(f"no such name {asked}")):
            raise AssertionError("a name that nobody made is there")
        stat_ms = (time.monotonic() - asked) * 1000
        info = json.loads(harness.call(harness.LSMFS, "info", "--json", self._volume.point).stdout)
        return {"rss_bytes": int(status["VmRSS"].split()[0]) * 1024, "threads": int(status["Threads"]),
                "descriptors": len(os.listdir(f"/proc/{pid}/fd")), "used_share": round(1 - facts.f_bavail / facts.f_blocks, 4),
                "files": facts.f_files - facts.f_ffree, "tables": sum(level["tables"] for level in info["levels"]),
                "levels": " ".join(f"{level['level']}:{level['bytes'] >> 20}" for level in info["levels"]),
                "table_free_bytes": info["volume"]["table_free_bytes"], "largest_free_bytes": info["volume"]["largest_free_bytes"],
                "cache_bytes": info["memory"]["cache_bytes"], "memtable_bytes": info["memory"]["unwritten_bytes"], "blob_bytes": info["blobs"]["bytes"],
                "stat_ms": round(stat_ms, 2)}

    def end(self):
        self._stop.set()
        self._thread.join(300)
        if self._thread.is_alive():
            self._failed("samples: wait for something that does not come")

    def column(self, name, begin=0.0, end=1.0):
        """Of the samples of a part of the time."""
        return _part([row[name] for row in self.rows], begin, end)

    def kinds(self, begin, end):
        """{name: number} of threads, of the same samples."""
        return _part(self._kinds[:len(self.rows)], begin, end)


def _part(samples, begin, end):
    return samples[int(len(samples) * begin):int(len(samples) * end)]
