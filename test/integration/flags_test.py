"""Inode flags: chattr(1), lsattr(1) and what they forbid, command by command as on ext4."""

import harness

HIDE = "sed 's/^\\([^ ]*\\)e/\\1-/'"  # ext4 says of files that they have extents
SHOW = f"lsattr -d . f d d/* | {HIDE}"
# In one process: another one would close the file in between, and with it send the kernel's pages. The flags that ext4 gives stay: it
# refuses to take the extents from a file that has several.
WRITE_AND_SET = """python3 -c 'import fcntl, os, sys; f = os.open("g", os.O_CREAT | os.O_WRONLY); os.write(f, b"y" * 9999)
has = int.from_bytes(fcntl.ioctl(f, 0x80086601, bytes(4)), "little"); fcntl.ioctl(f, 0x40086602, (has | int(sys.argv[1])).to_bytes(4, "little"))
os.fsync(f); os.close(f)'""".replace("\n", "; ")
# Stored through a mapping, and not written by the kernel yet.
MAP_AND_SET = WRITE_AND_SET.replace("import ", "import mmap, ").replace("os.O_WRONLY", "os.O_RDWR").replace("has =", "m = mmap.mmap(f, 9999); m[9998] = 122; has =")
SEE_MAPPED = "sync; dd if=g iflag=nocache count=0 status=none; tail -c 2 g"
# What needs open(2) to be refused is left out: FUSE asks the daemon nothing then, and the first write is refused instead.
COMMANDS = f"""
echo hi > f; mkdir d; touch d/a; {SHOW}
chattr +i f; {SHOW}
rm -f f; chmod 600 f; chown 1 f; ln f g; mv f g; perl -e 'truncate("f", 0) or die $!'; setfattr -n user.x -v 1 f
touch -c -d @5 f; setfacl -m u:1:r f; cat f; lsattr -p f | sed 's/e/-/'
stat -c %s:%a:%u f; python3 -c 'import os; print(os.stat("f").st_ctime > 0)'
chattr -i f; chattr =a f; {SHOW}
echo more >> f; cat f; perl -e 'truncate("f", 0) or die $!'; chmod 600 f; touch -c -d @5 f; touch -c -m f; touch -c f; rm -f f; ln f g
python3 -c 'import os; f = os.open("f", os.O_WRONLY | os.O_APPEND); os.write(f, b"x"); os.close(f); print(os.stat("f").st_size)'
touch g; python3 -c 'import os; f = os.open("g", os.O_WRONLY); os.write(f, b"x"); os.fsync(f); os.link("g", "h"); os.system("chattr +i g"); os.close(f)'
chattr -i g; rm g h
{WRITE_AND_SET} 16; wc -c g; chattr -i g; rm g
{WRITE_AND_SET} 32; wc -c g; chattr -a g; rm g
{MAP_AND_SET} 16; {SEE_MAPPED}; chattr -i g; rm g
{MAP_AND_SET} 32; {SEE_MAPPED}; chattr -a g; rm g
for mode in 4755 2755 6777 2745; do touch s; chmod $mode s; python3 -c 'import os; os.chown("s", -1, -1)'; stat -c %a s; rm s; done
chattr =Ad f; chattr +A d; {SHOW}; touch d/b; mkdir d/c; ln -s x d/l; {SHOW}
chattr +i d; touch d/new; mkdir d/new; rm -f d/a; mv d/a a; mv f d/f; ln f d/f; touch -c d/a; rmdir d/c; mv d e
chattr -i d; chattr +a d; touch d/new; rm -f d/a; mv d/a d/aa; mv f d/f; ls d; {SHOW}
chattr -a d; mv d/f f; rm -r d; chattr +I f
setpriv --reuid=1 --regid=1 --clear-groups sh -c 'chattr +d f; chattr +i f; lsattr f | {HIDE}'
chown 1 f; setpriv --reuid=1 --regid=1 --clear-groups sh -c 'chattr +d f; chattr +i f; lsattr f | {HIDE}'
mkfifo p; chattr +i p; lsattr p; ln -s f l; lsattr l
"""


class Flags(harness.MountCase):
    def test_flags_are_kept_and_obeyed_as_on_ext4(self):
        volume = self.volume(1 * harness.GiB)
        volume.mount()
        native = self.native(256 * harness.MiB)
        self.compare(COMMANDS, volume.point, native)
        self.must("chattr", "=iA", volume.path("f"))
        volume.remount()
        self.assertIn("i--A", self.must("lsattr", volume.path("f")).replace("-d", "--"))
        self.refused("rm", "-f", volume.path("f"), says=["not permitted"])


if __name__ == "__main__":
    harness.main()
