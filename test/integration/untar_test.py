"""A tree is unpacked, the file system unmounted and mounted again, and every byte, mode, owner and time is there."""

import os
import shutil

import harness
import source_tree

SEED = 20240607


class Untar(harness.MountCase):
    def setUp(self):
        super().setUp()
        self.source = self.work.sub("source")
        self.count = source_tree.make(self.source, SEED)
        self.tar = os.path.join(self.work.path, "tree.tar")
        self.must("tar", "--format=pax", "--sparse", "-cf", self.tar, "-C", self.source, ".")

    def check_same(self, there):
        self.assertEqual(source_tree.differences(source_tree.facts(self.source), source_tree.facts(there)), [])
        # The two that people use; fifos and devices cannot be read by diff.
        self.must("diff", "-r", "--no-dereference", "--exclude=fifo", "--exclude=null", "--exclude=block", self.source, there)
        self.must("tar", "--compare", "-f", self.tar, "-C", there)

    def unpack_and_compare(self, image):
        volume = self.volume(image=image)
        volume.mount()
        tree = volume.path("tree")
        os.mkdir(tree)
        self.must("tar", "-xpf", self.tar, "-C", tree)
        self.check_same(tree)
        print(f"{self.count} entries; mounted again in {volume.remount():.2f} s")
        self.check_same(tree)
        sparse = os.stat(os.path.join(tree, "sparse"))
        self.assertLess(sparse.st_blocks * 512, 1 << 20, "the sparse file is sparse no more")
        return volume

    def test_a_tree_unpacked_on_a_loop_device_is_there_after_a_remount(self):
        volume = self.unpack_and_compare(image=False)
        volume.remount("ro")
        self.check_same(volume.path("tree"))
        if harness.FS == "lsmfs":
            with self.assertRaises(OSError):
                os.mkdir(volume.path("new"))

    @harness.lsmfs_only
    def test_a_tree_unpacked_in_an_image_file_is_there_after_a_remount(self):
        self.unpack_and_compare(image=True)

    def test_a_copy_within_the_mount_is_the_same_and_rm_removes_all_of_it(self):
        volume = self.volume()
        volume.mount()
        os.mkdir(volume.path("tree"))
        self.must("tar", "-xpf", self.tar, "-C", volume.path("tree"))
        self.must("cp", "-a", volume.path("tree"), volume.path("copy"))
        self.assertEqual(source_tree.differences(source_tree.facts(self.source), source_tree.facts(volume.path("copy"))), [])
        self.must("rm", "-rf", volume.path("tree"))
        self.assertEqual([name for name in os.listdir(volume.point) if name != "lost+found"], ["copy"])
        volume.remount()
        self.assertEqual(source_tree.differences(source_tree.facts(self.source), source_tree.facts(volume.path("copy"))), [])
        shutil.rmtree(volume.path("copy"))
        volume.remount()
        self.assertEqual([name for name in os.listdir(volume.point) if name != "lost+found"], [])


if __name__ == "__main__":
    harness.main()
