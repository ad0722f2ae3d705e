"""kill -9 of the daemon: the next mount shows a tree that was there at one moment, no older than the last fsync."""

import contextlib
import mmap
import os
import random
import subprocess

import harness
from until import until

SEED = 99
LONG = os.environ.get("LSMFS_LONG") == "1"
FILES, LARGEST = (6000, 200_000) if LONG else (3000, 100_000)


class Crash(harness.MountCase):
    def make_tar(self):
        """Plain files, folders and hard links, whose order in the archive is the order in which tar makes them.
        Returns the archive and [(name, kind, contents or link target)]."""
        rng = random.Random(SEED)
        source = self.work.sub("source")
        members = []
        folders = [""]
        files = []
        for number in range(FILES):
            folder = rng.choice(folders[-20:])
            if number % 20 == 0:
                name = os.path.join(folder, f"dir{number}")
                os.mkdir(os.path.join(source, name))
                folders.append(name)
                members.append((name, "dir", None))
            elif number % 37 == 0:
                name = os.path.join(folder, f"link{number}")
                target = rng.choice(files)
                os.link(os.path.join(source, target), os.path.join(source, name))
                members.append((name, "link", target))
            else:
                name = os.path.join(folder, f"file{number}")
                size = 3 << 20 if number % 1000 == 999 else rng.choice([0, 10, 4096, 5000, 30000, LARGEST])
                contents = rng.randbytes(size // 2) + bytes(size - size // 2)
                with open(os.path.join(source, name), "wb") as file:
                    file.write(contents)
                os.chmod(os.path.join(source, name), rng.choice([0o644, 0o755, 0o400]))
                files.append(name)
                members.append((name, "file", contents))
        tar = os.path.join(self.work.path, "tree.tar")
        names = os.path.join(self.work.path, "names")
        with open(names, "w", encoding="ascii") as file:
            file.write("".join(name + "\n" for name, _, _ in members))
        self.must("tar", "--format=pax", "--no-recursion", "-cf", tar, "-C", source, "-T", names)
        return tar, source, members

    def check_prefix(self, tree, source, members):
        """All members up to some point as they were written, then at most one that is unfinished, then none.
        Returns how many are whole."""
        there = [os.path.lexists(os.path.join(tree, name)) for name, _, _ in members]
        count = there.index(False) if False in there else len(there)
        self.assertEqual(there, [True] * count + [False] * (len(there) - count),
                         "a member is there though one written before it is not")
        self.assertEqual(sum(len(dirs) + len(names) for _, dirs, names in os.walk(tree)), count, "more than was written")
        for index, (name, kind, what) in enumerate(members[:count]):
            path = os.path.join(tree, name)
            if kind == "dir":
                self.assertTrue(os.path.isdir(path), name)
            elif kind == "link":
                self.assertTrue(os.path.samefile(path, os.path.join(tree, what)), name)
            else:
                with open(path, "rb") as file:
                    found = file.read()
                if index == count - 1:
                    # Unfinished: cut short, or extended by zeros that were not yet overwritten.
                    self.assertEqual(found, what[:len(found)], name)
                    continue
                self.assertEqual(len(found), len(what), f"{name}, member {index} of {count}")
                self.assertEqual(found, what, f"{name}, member {index} of {count}")
                was, now = os.stat(os.path.join(source, name)), os.stat(path)
                self.assertEqual((was.st_mode, was.st_mtime_ns), (now.st_mode, now.st_mtime_ns), f"{name}, member {index} of {count}")
        return count

    def check_alive(self, volume):
        """Every directory takes a create and a delete."""
        for place, _, _ in os.walk(volume.point):
            path = os.path.join(place, "probe")
            os.mkdir(path)
            os.rmdir(path)

    def kill_during_untar(self, volume, tar, tree, when):
        """Kills the daemon when tar, in the midst of its work, has read the share `when` of the archive."""
        with subprocess.Popen(["tar", "-xpf", "-", "-C", tree], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as untar:
            with open(tar, "rb") as archive:
                # It has read all but what a pipe holds when this returns, and cannot come to its end.
                untar.stdin.write(archive.read(int(os.path.getsize(tar) * when)))
            untar.stdin.flush()
            volume.kill()
        self.assertNotEqual(untar.returncode, 0)

    @harness.lsmfs_only
    def test_killed_during_untar_the_tree_is_a_prefix_of_what_was_written(self):
        tar, source, members = self.make_tar()
        volume = self.volume()
        for number, when in enumerate([0.05, 0.4, 0.8]):
            volume.mount("sync_interval=1")
            tree = volume.path(f"tree{number}")
            os.mkdir(tree)
            os.sync()
            self.kill_during_untar(volume, tar, tree, when)
            taken = volume.mount()
            whole = self.check_prefix(tree, source, members) if os.path.isdir(tree) else 0
            print(f"killed at {when:.0%}: mounted again in {taken:.2f} s, {whole} of {len(members)} members there")
            self.check_alive(volume)
            # And it goes on from there.
            os.makedirs(tree, exist_ok=True)
            self.must("tar", "-xpf", tar, "-C", tree)
            self.assertEqual(self.check_prefix(tree, source, members), len(members))
            volume.remount()
            self.assertEqual(self.check_prefix(tree, source, members), len(members))
            volume.umount()

    @harness.lsmfs_only
    def test_all_before_an_fsync_is_there_after_a_kill(self):
        tar, source, members = self.make_tar()
        volume = self.volume(image=True)
        volume.mount("sync_interval=3600")
        tree = volume.path("tree")
        os.mkdir(tree)
        self.must("tar", "-xpf", tar, "-C", tree)
        os.rename(tree, volume.path("renamed"))
        # One history: the fsync of any file makes all before it durable.
        descriptor = os.open(volume.path("marker"), os.O_CREAT | os.O_WRONLY)
        os.write(descriptor, b"here")
        os.fsync(descriptor)
        os.close(descriptor)
        volume.kill()
        volume.mount()
        self.assertFalse(os.path.lexists(tree))
        self.assertEqual(self.check_prefix(volume.path("renamed"), source, members), len(members))
        with open(volume.path("marker"), "rb") as file:
            self.assertEqual(file.read(), b"here")
        self.check_alive(volume)

    @harness.lsmfs_only
    def test_without_any_fsync_it_becomes_durable_after_the_sync_interval(self):
        volume = self.volume(256 << 20, image=True)
        volume.mount("sync_interval=1")
        words = os.urandom(16).hex().encode()
        with open(volume.path("file"), "wb") as file:
            file.write(words * 100)  # some of them in one piece, wherever a block of the log ends
        until(lambda: self.is_in_image(volume, words), "what was written without an fsync, in the image")
        volume.kill()
        volume.mount()
        with open(volume.path("file"), "rb") as file:
            self.assertEqual(file.read(), words * 100)

    @staticmethod
    def is_in_image(volume, words):
        with open(volume.image, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            return image.find(words) >= 0

    @harness.lsmfs_only
    def test_names_and_data_are_durable_at_once_where_the_mount_options_say_so(self):
        volume = self.volume(256 << 20, image=True)  # whose daemon others' sync(2) does not reach
        for options, names, data in (("dirsync", True, False), ("sync", True, True), ("sync,async", False, False)):
            with self.subTest(options=options):
                volume.mount("sync_interval=0," + options)
                os.mkdir(volume.path(options))
                with open(volume.path(options, "file"), "wb") as file:
                    os.rename(volume.path(options, "file"), volume.path(options, "renamed"))
                    file.write(b"data")
                volume.kill()
                volume.mount()
                self.assertEqual(os.path.exists(volume.path(options, "renamed")), names)
                if names:
                    self.assertEqual(os.path.getsize(volume.path(options, "renamed")), 4 if data else 0)
                volume.umount()
        # And a remount changes it.
        volume.mount("sync_interval=0")
        self.must(harness.LSMFS, "mount", "-o", "remount,dirsync,sync_interval=0", volume.device, volume.point)
        os.mkdir(volume.path("made after it"))
        volume.kill()
        volume.mount()
        self.assertTrue(os.path.exists(volume.path("made after it")))

    @harness.lsmfs_only
    def test_files_deleted_while_open_are_gone_after_a_kill_and_their_space_is_free(self):
        volume = self.volume()
        volume.mount()
        free = os.statvfs(volume.point).f_bfree
        orphan = os.open(volume.path("orphan"), os.O_CREAT | os.O_RDWR)
        for _ in range(64):
            os.write(orphan, os.urandom(1 << 20))
        os.unlink(volume.path("orphan"))
        os.fsync(orphan)
        volume.kill()
        with self.assertRaises(OSError):  # the daemon is gone: flushing has nobody to ask
            os.fsync(orphan)
        with contextlib.suppress(OSError):
            os.close(orphan)
        volume.mount()
        self.assertEqual(os.listdir(volume.point), [])
        volume.remount()
        until(lambda: os.statvfs(volume.point).f_bfree >= free - 16 * 256, "the space of the orphan")


if __name__ == "__main__":
    harness.main()
