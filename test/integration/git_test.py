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
