# Completion of lsmfs and its helpers for fish.

function __lsmfs_mounts # where an lsmfs is mounted
    while read -l source point type rest
        if contains -- $type fuse.lsmfs fuseblk.lsmfs
            printf '%b\n' (string replace -ra '\\\\(?=[0-7]{3})' '\\\\0' -- $point)
        end
    end </proc/self/mounts
end

function __lsmfs_devices
    lsblk -nrpo NAME 2>/dev/null
end

function __lsmfs_tags # LABEL=... and UUID=... of each lsmfs that udev knows
    for line in (lsblk -nPo FSTYPE,LABEL,UUID 2>/dev/null)
        if set -l found (string match -r 'FSTYPE="lsmfs" LABEL="(.*)" UUID="(.*)"' -- $line)
            test -n "$found[2]"; and printf '%b\n' LABEL=$found[2]
            echo UUID=$found[3]
        end
    end
end

function __lsmfs_mount_options
    printf '%s\n' ro\t'Read only' rw\t'Read and write' \
        cache={64M,256M,1G}\t'Memory for data, indexes and unwritten changes' \
        sync_interval={0,1,5,30}\t'Make changes durable this often' \
        timeout={0,10,60,600}\t'Wait for a server that is away' \
        relatime\t'Update access times seldom' noatime\t'Update no access times' \
        strictatime\t'Update all access times' nodiratime\t'Update no access times of directories' \
        atime\t'Take back noatime' norelatime\t'Take back relatime' \
        nostrictatime\t'Take back strictatime' diratime\t'Take back nodiratime' \
        acl\t'Keep access control lists' noacl\t'Keep no access control lists' \
        xattr\t'Keep extended attributes' noxattr\t'Keep no extended attributes' \
        user_rm\t'Let owners of directories use lsmfs rm and rollback' nouser_rm\t'Take back user_rm' \
        snapshot=\t'Show this snapshot alone' \
        remount\t'Change the options of what is mounted' \
        latency={auto,on,off}\t'Keep processors from sleeping' \
        io_uring={auto,on,off}\t'Take requests by rings' \
        writeback\t'Let the kernel gather small writes' \
        sync\t'Writes are durable at once' dirsync\t'Names are durable at once' async\t'Take back sync' \
        nosuid\t'Ignore set-user-id bits' nodev\t'Ignore devices' noexec\t'Execute nothing' \
        lazytime\t'Write times late' nosymfollow\t'Follow no symbolic links' \
        suid\t'Heed set-user-id bits' dev\t'Heed devices' exec\t'Execute programs' \
        nolazytime\t'Take back lazytime' symfollow\t'Follow symbolic links' \
        context=\t'Label of all files, of SELinux' fscontext=\t'Label of the file system' \
        defcontext=\t'Label of files without one' rootcontext=\t'Label of the root directory' \
        allow_other\t'Let other users in' nofail\t'A missing device is no error'
end

function __lsmfs_command # whether the command is one of these
    set -l words (commandline -opc)
    contains -- "$words[2]" $argv
end

# Whether as many operands as $argv[1] stand before the cursor, after as many words as $argv[2]. The rest: options that take a value.
function __lsmfs_operand
    set -l words (commandline -opc)
    set -l count 0
    set -l skip no
    set -l before
    for word in $words[(math $argv[2] + 1)..]
        if test $skip = yes
            set skip no
        else if contains -- $word $argv[3..]
            set skip yes
        else if test "$before" = -C; and string match -qr '^[0-9]+$' -- $word
        else if not string match -q -- '-*' $word
            set count (math $count + 1)
        end
        set before $word
    end
    test $count = $argv[1] -a $skip = no
end

# Options of COMMAND, for `complete` with the words of $argv before them.
function __lsmfs_options
    set -l command $argv[1]
    set -l to $argv[2..]
    $to -s h -l help -d 'Print help'
    switch $command
        case mkfs mkfs.lsmfs
            $to -s L -l label -x -d 'Name the file system'
            $to -l lease -d 'Let one host at a time write to it'
            $to -s f -l force -d 'Destroy what is there'
            $to -l size -x -a '1G 4G 16G' -d 'Make an image of this size'
            $to -s d -l from -r -d 'Have in it what this archive or directory has'
        case mount mount.lsmfs
            $to -s o -x -a '(__fish_complete_list , __lsmfs_mount_options)' -d 'Mount options'
        case fsck fsck.lsmfs
            $to -s n -d 'Change nothing'
            $to -s a -d 'Repair if nothing is lost by it'
            $to -s p -d 'Repair if nothing is lost by it'
            $to -s y -d 'Repair all that can be'
            $to -s f -d 'Check also what seems clean'
            $to -s v -d 'Say more'
            $to -s t -d Ignored
            $to -s C -d 'Show progress'
        case tune
            $to -s L -l label -x -d 'Name the file system'
            $to -s U -l uuid -x -a random -d 'Give it another UUID'
            $to -l lease -x -a 'on off' -d 'Let one host at a time write to it'
            $to -s o -x -a '(__fish_complete_list , __lsmfs_mount_options)' -d 'Keep these mount options'
        case umount
            $to -l wait -d 'Wait until nothing shows it any more'
        case rm
            $to -s r -d 'With all that lies below'
            $to -s R -l recursive -d 'With all that lies below'
        case prune
            $to -l all -d 'Also those to which somebody gave a name'
            $to -s n -l dry-run -d 'Print what would be removed'
            $to -l json -d 'As JSON'
        case diff
            $to -l all -d 'Also what lies below directories that only one has'
            $to -s 0 -l null -d 'End entries with NUL'
            $to -l json -d 'As JSON'
        case send
            $to -s i -l from -x -a '(__fish_complete_directories)' -d 'Send only what differs from this snapshot'
            $to -l resume -x -d 'Send what is not there yet'
            $to -s q -l quiet -d 'Show no progress'
        case receive
            $to -s t -l tokens -d 'Print where streams go on'
            $to -s q -l quiet -d 'Show no progress'
        case changes
            $to -l since -x -d 'Tell what has changed since this token'
            $to -s 0 -l null -d 'End entries with NUL'
            $to -l json -d 'As JSON'
            $to -l git -d 'Answer git'
        case rollback
            $to -l discard -d 'Make no snapshot of what is there before'
        case scrub
            $to -l rate -x -a '0 10M 64M' -d 'Read no more than this in a second'
        case snapshots
            $to -l json -d 'As JSON'
            $to -l sizes -d 'How much each has, too'
        case info
            $to -l json -d 'As JSON'
            $to -l udev -d 'As properties of udev'
        case stats
            $to -l json -d 'As JSON'
            $to -l prometheus -d 'In the text format of Prometheus'
            $to -l interval -x -a '1 10 60' -d 'Print what was counted in each so many seconds'
        case layout
            $to -l device -x -a '(__lsmfs_devices)' -d 'Trace this device while a command runs'
            $to -l drop-caches -d 'Drop all caches before the command'
            $to -l json -d 'As JSON'
            $to -l output -r -d 'Write the result to this file'
            $to -l trace -r -d 'Write every request to this file'
            $to -l buffer -x -a '16M 64M' -d 'Memory of the trace for each processor'
    end
    switch $command
        case mount
            $to -s f -l foreground -d 'Stay in the foreground'
            $to -l log -r -d 'Log to this file'
        case mount.lsmfs
            $to -s s -d 'Pass over unknown options'
            $to -s f -d 'Do all but the mounting'
            $to -s r -d 'Read only'
            $to -s w -d 'Read and write'
            $to -s n -d Ignored
            $to -s v -d Ignored
            $to -s t -x -a 'lsmfs fuse.lsmfs fuseblk.lsmfs' -d Ignored
            $to -s V -l version -d 'Print versions'
        case mkfs.lsmfs
            $to -s v -d Ignored
            $to -s V -l version -d 'Print versions'
        case fsck.lsmfs
            $to -s V -l version -d 'Print versions'
    end
end

# The file may be read under the name of each.
for name in lsmfs mkfs.lsmfs {fsck,mount}.{,fuse.,fuseblk.}lsmfs
    complete -c $name -e
    complete -c $name -f
end

complete -c lsmfs -n __fish_use_subcommand -s h -l help -d 'Print help'
complete -c lsmfs -n __fish_use_subcommand -s V -l version -d 'Print versions'
set -l commands mkfs\t'Make an empty file system' \
    mount\t'Mount a device or image' \
    tune\t'Change its label, UUID or kept mount options' \
    resize\t'Grow or shrink it' \
    umount\tUnmount \
    clone\t'Copy a directory with all below it' \
    import\t'Make a directory of an archive' \
    snapshot\t'Keep a directory with all below it as it is now' \
    prune\t'Remove the snapshots that no rule keeps' \
    rollback\t'Make a directory again what a snapshot has kept' \
    send\t'Write a snapshot to a stream' \
    receive\t'Make a snapshot of a stream' \
    rm\t'Remove directories with all below them' \
    fsck\t'Check and repair a file system' \
    scrub\t'Read and verify all of a mounted file system' \
    snapshots\t'List the snapshots of a directory' \
    diff\t'Tell what differs between two directories' \
    changes\t'Tell what has changed since a moment' \
    info\t'Print facts' \
    stats\t'Print numbers of a mount' \
    top\t'Show what goes on in a mount' \
    layout\t'Measure how well a tree lies on its disk' \
    trim\t'Discard free space' \
    help\t'Print the help of a command'
for command in $commands
    set -l pair (string split \t $command)
    complete -c lsmfs -n __fish_use_subcommand -a $pair[1] -d $pair[2]
    complete -c lsmfs -n '__fish_seen_subcommand_from help; and __lsmfs_operand 0 2' -a $pair[1] -d $pair[2]
    if test $pair[1] != help
        __lsmfs_options $pair[1] complete -c lsmfs -n "__lsmfs_command $pair[1]"
    end
end
complete -c lsmfs -n '__lsmfs_command mkfs; and __lsmfs_operand 0 2 -L --label --size -d --from' -F -a '(__lsmfs_devices)'
complete -c lsmfs -n '__lsmfs_command fsck info resize; and __lsmfs_operand 0 2' -F -a '(__lsmfs_devices) (__lsmfs_tags)'
complete -c lsmfs -n '__lsmfs_command tune; and __lsmfs_operand 0 2 -L --label -U --uuid -o --lease' -F -a '(__lsmfs_devices) (__lsmfs_tags)'
complete -c lsmfs -n '__lsmfs_command resize; and __lsmfs_operand 1 2' -a '1G 4G 16G'
complete -c lsmfs -n '__lsmfs_command mount; and __lsmfs_operand 0 2 -o --log' -F -a '(__lsmfs_devices) (__lsmfs_tags)'
complete -c lsmfs -n '__lsmfs_command mount; and __lsmfs_operand 1 2 -o --log' -a '(__fish_complete_directories)'
complete -c lsmfs -n '__lsmfs_command umount scrub stats top trim; and __lsmfs_operand 0 2 --rate --interval' -a '(__lsmfs_mounts)'
complete -c lsmfs -n '__lsmfs_command clone rollback diff; and begin; __lsmfs_operand 0 2; or __lsmfs_operand 1 2; end' -a '(__fish_complete_directories)'
complete -c lsmfs -n '__lsmfs_command import; and __lsmfs_operand 0 2' -F
complete -c lsmfs -n '__lsmfs_command import; and __lsmfs_operand 1 2' -a '(__fish_complete_directories)'
complete -c lsmfs -n '__lsmfs_command send; and __lsmfs_operand 0 2 -i --from --resume' -a '(__fish_complete_directories)'
complete -c lsmfs -n '__lsmfs_command changes; and __lsmfs_operand 0 2 --since' -a '(__fish_complete_directories)'
complete -c lsmfs -n '__lsmfs_command snapshot snapshots prune receive; and __lsmfs_operand 0 2' -a '(__fish_complete_directories)'
complete -c lsmfs -n '__lsmfs_command prune; and not __lsmfs_operand 0 2' -a 'latest=10 hourly=24 daily=7 weekly=5 monthly=12 yearly=2'
complete -c lsmfs -n '__lsmfs_command rm' -a '(__fish_complete_directories)'
complete -c lsmfs -n '__lsmfs_command layout; and contains -- -- (commandline -opc)' -F
complete -c lsmfs -n '__lsmfs_command layout; and test (commandline -opc)[-1] = --' -a '(__fish_complete_command)'
complete -c lsmfs -n '__lsmfs_command layout; and __lsmfs_operand 0 2 --device --output --trace --buffer' -F

__lsmfs_options mkfs.lsmfs complete -c mkfs.lsmfs
for name in {fsck,mount}.{,fuse.,fuseblk.}lsmfs
    __lsmfs_options (string split -f 1 . $name).lsmfs complete -c $name
end
complete -c mkfs.lsmfs -n '__lsmfs_operand 0 1 -L --label --size -d --from' -F -a '(__lsmfs_devices)'
for helper in fsck.{,fuse.,fuseblk.}lsmfs
    complete -c $helper -n '__lsmfs_operand 0 1' -F -a '(__lsmfs_devices) (__lsmfs_tags)'
end
for helper in mount.{,fuse.,fuseblk.}lsmfs
    complete -c $helper -n '__lsmfs_operand 0 1 -o -t' -F -a '(__lsmfs_devices) (__lsmfs_tags)'
    complete -c $helper -n '__lsmfs_operand 1 1 -o -t' -a '(__fish_complete_directories)'
end
