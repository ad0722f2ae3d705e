"""An sqlite database in WAL mode: shared memory maps, locks, fsync, and what is acknowledged survives kill -9."""

import os
import sqlite3
import subprocess
import sys

import harness
from until import until

TRANSACTIONS = 10000
WRITER = """\
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma synchronous = full")
for number in range(1000000):
    db.execute("insert into t values (?, ?)", (number, "x" * (number % 300)))
    print(number, flush=True)
"""


class Sqlite(harness.MountCase):
    def open(self, volume):
        database = sqlite3.connect(volume.path("db"), isolation_level=None)
        self.assertEqual(database.execute("pragma journal_mode = wal").fetchone()[0], "wal")
        return database

    def test_ten_thousand_transactions_with_a_second_reader(self):
        volume = self.volume()
        volume.mount()
        writer = self.open(volume)
        writer.execute("pragma synchronous = normal")
        writer.execute("create table t (n integer primary key, text)")
        reader = self.open(volume)
        for number in range(TRANSACTIONS):
            writer.execute("insert into t values (?, ?)", (number, "y" * (number % 500)))
            if number % 500 == 0:
                self.assertEqual(reader.execute("select count(*) from t").fetchone()[0], number + 1)
        for database in (writer, reader):
            self.assertEqual(database.execute("pragma integrity_check").fetchall(), [("ok",)])
            database.close()
        volume.remount()
        database = self.open(volume)
        self.assertEqual(database.execute("pragma integrity_check").fetchall(), [("ok",)])
        self.assertEqual(database.execute("select count(*), sum(length(text)) from t").fetchone(),
                         (TRANSACTIONS, sum(number % 500 for number in range(TRANSACTIONS))))
        database.close()

    @harness.lsmfs_only
    def test_what_was_committed_before_kill_9_is_there(self):
        volume = self.volume()
        volume.mount()
        database = self.open(volume)
        database.execute("create table t (n integer primary key, text)")
        database.close()
        log = os.path.join(self.work.path, "committed")
        with open(log, "wb") as out:
            writer = subprocess.Popen([sys.executable, "-c", WRITER, volume.path("db")], stdin=subprocess.DEVNULL,
                                      stdout=out, stderr=subprocess.DEVNULL)
        try:
            until(lambda: os.path.getsize(log) >= 1000 or writer.poll() is not None, "the first transactions")
            volume.kill()
        finally:
            writer.kill()
            writer.wait()
        with open(log, encoding="ascii") as file:
            committed = file.read().count("\n")
        self.assertGreater(committed, 10, "the writer did not get going")
        print(f"{committed} transactions committed; mounted again in {volume.mount():.2f} s")
        database = self.open(volume)
        self.assertEqual(database.execute("pragma integrity_check").fetchall(), [("ok",)])
        found = [row[0] for row in database.execute("select n from t order by n")]
        self.assertEqual(found, list(range(len(found))))
        self.assertGreaterEqual(len(found), committed)
        database.close()


if __name__ == "__main__":
    harness.main()
