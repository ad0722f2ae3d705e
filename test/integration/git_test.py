"""A git repository with a history is cloned and used on the mount."""

import os

import harness
import synthetic_repository
import source_tree

SEED = 7
TAGS = 8


class Git(harness.MountCase):
    def git(self, where, *words):
        return self.must("git", "-C", where, "-c", "safe.directory=*", "-c", "protocol.file.allow=always", *words)

    def check_worktree(self, clone, tag):
        """The work tree is what git archive of the original repository says it is."""
        plain = self.work.sub(f"plain-{tag}")
        if not os.listdir(plain):
            tar = os.path.join(self.work.path, f"{tag}.tar")
            self.git(self.original, "archive", "--format=tar", "-o", tar, tag)
            self.must("tar", "-xf", tar, "-C", plain)
        self.must("diff", "-r", "--exclude=.git", plain, clone)
        self.assertEqual(self.git(clone, "status", "--porcelain"), "")

    def test_a_work_tree_is_stashed_moved_cleaned_and_doubled(self):
        self.original = os.path.join(self.work.path, "original.git")
        synthetic_repository.make(self.original, commits=60, files=300, seed=SEED, tags=TAGS)
        volume = self.volume()
        volume.mount()
        clone, second = volume.path("clone"), volume.path("second")
        self.git(self.work.path, "clone", "-q", "file://" + self.original, clone)
        tracked = self.git(clone, "ls-files", "-z").split("\0")[:-1]
        volume.remount()
        # What the index knows of each file, to the nanosecond and the inode number, is so still.
        self.assertEqual(self.git(clone, "diff-files", "--name-only"), "")

        # Changes, a mode, a link, a removal and new files go into the stash and come back.
        with open(os.path.join(clone, tracked[0]), "ab") as file:
            file.write(b"changed\n")
        os.chmod(os.path.join(clone, tracked[1]), 0o755)
        os.unlink(os.path.join(clone, tracked[2]))
        os.symlink(tracked[0], os.path.join(clone, "link"))
        os.makedirs(os.path.join(clone, "new", "folder"))
        with open(os.path.join(clone, "new", "folder", "file"), "wb") as file:
            file.write(b"new")
        changed = self.git(clone, "status", "--porcelain")
        self.assertEqual(len(changed.splitlines()), 5)
        self.git(clone, "stash", "push", "-q", "--include-untracked")
        self.check_worktree(clone, "main")
        self.git(clone, "stash", "pop", "-q")
        self.assertEqual(self.git(clone, "status", "--porcelain"), changed)

        # Moved within the tree: a folder, and a name that changes its case only.
        folder = next(name.split("/")[0] for name in tracked if "/" in name)
        self.git(clone, "add", "-A")
        self.git(clone, "mv", folder, "moved")
        self.git(clone, "mv", "link", "LINK")
        self.git(clone, "commit", "-q", "-m", "Move")
        self.assertTrue(os.path.islink(os.path.join(clone, "LINK")))
        self.assertFalse(os.path.lexists(os.path.join(clone, "link")))
        self.assertFalse(os.path.lexists(os.path.join(clone, folder)))

        # A second work tree, moved and removed; what is not tracked is cleaned away.
        self.git(clone, "worktree", "add", "-q", "-f", second, "v3")
        self.check_worktree(second, "v3")
        self.git(clone, "worktree", "move", second, second + "-moved")
        volume.remount()
        self.check_worktree(second + "-moved", "v3")
        self.git(clone, "worktree", "remove", second + "-moved")
        self.assertFalse(os.path.lexists(second + "-moved"))
        self.must("cp", "-a", os.path.join(clone, "moved"), os.path.join(clone, "copy"))
        self.git(clone, "clean", "-q", "-fdx")
        self.git(clone, "reset", "-q", "--hard", "v1")
        self.check_worktree(clone, "v1")
        self.git(clone, "fsck", "--full", "--strict")

    def test_a_clone_is_checked_out_back_and_forth_collected_and_sound(self):
        self.original = os.path.join(self.work.path, "original.git")
        synthetic_repository.make(self.original, commits=400, files=600, seed=SEED, tags=TAGS)
        volume = self.volume()
        volume.mount()
        clone = volume.path("clone")
        self.git(self.work.path, "clone", "-q", "file://" + self.original, clone)
        self.check_worktree(clone, "main")
        self.git(clone, "fsck", "--full", "--strict")
        for number in [0, TAGS - 1, 3, 4, 3, 0, 6]:
            self.git(clone, "checkout", "-q", f"v{number}")
            self.check_worktree(clone, f"v{number}")
        volume.remount()
        self.check_worktree(clone, "v6")
        self.git(clone, "checkout", "-q", "main")
        self.check_worktree(clone, "main")

        # Loose objects and a merge, then everything repacked.
        for number in range(20):
            with open(os.path.join(clone, f"new{number}"), "w", encoding="ascii") as file:
                file.write(f"{number}\n" * 100)
            self.git(clone, "add", f"new{number}")
            self.git(clone, "commit", "-q", "-m", f"Add {number}")
        self.git(clone, "checkout", "-q", "-b", "side", "HEAD~10")
        self.git(clone, "mv", "new3", "renamed3")
        self.git(clone, "commit", "-q", "-m", "Rename")
        self.git(clone, "merge", "-q", "-m", "Merge", "main")
        self.git(clone, "stash", "list")
        self.git(clone, "gc", "--quiet", "--prune=now")
        self.git(clone, "fsck", "--full", "--strict")
        before = source_tree.facts(clone)
        volume.remount()
        self.assertEqual(source_tree.differences(before, source_tree.facts(clone)), [])
        self.git(clone, "fsck", "--full", "--strict")
        self.assertEqual(self.git(clone, "status", "--porcelain"), "")


if __name__ == "__main__":
    harness.main()
