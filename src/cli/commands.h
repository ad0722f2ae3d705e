// The commands: each has its arguments as a struct and one function that does it, prints what went
// wrong as one line on stderr, and gives the exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace lsmfs::cli {

struct MkfsArguments {
  std::string path;   // device or image
  std::string label;
  std::string size;   // empty: as large as it is
  std::string from;   // a tar archive, or a directory, whose copy it is to have; "-": standard input
  bool force = false;
  bool lease = false;
};
int mkfs(const MkfsArguments& arguments);

struct MountArguments {
  std::string path, directory;
  std::vector<std::string> options;  // as given with -o, commas and all
  bool sloppy = false;               // unknown options are passed over
  bool fake = false;                 // all but the mounting
  bool repeats = false;              // that the snapshot is mounted there already is no error
  bool foreground = false;
  std::string log;  // a file; empty: syslog, or stderr in the foreground
};
int mount(const MountArguments& arguments);

struct TuneArguments {
  std::string path;  // device or image, or any file or directory in a mount
  std::optional<std::string> label, uuid, options, lease;
};
int tune(const TuneArguments& arguments);

struct ResizeArguments {
  std::string path;  // device or image, or any file or directory in a mount
  std::string size;  // empty: that of the device
};
int resize(const ResizeArguments& arguments);

struct UmountArguments {
  std::string directory;
  bool wait = false;  // also for those elsewhere who still use it
};
int umount(const UmountArguments& arguments);

struct FsckArguments {
  std::string path;             // device or image
  enum class Repair { none, safe, all } repair = Repair::none;  // safe: what loses nothing, if that is all
  bool verbose = false;
  std::optional<int> progress;  // a descriptor for lines of progress, or 0
};
int fsck(const FsckArguments& arguments);

struct InfoArguments {
  std::string path;  // device, image, or any file or directory in a mount
  bool json = false;
  bool udev = false;  // only what the superblock says, as properties of udev
};
int info(const InfoArguments& arguments);

struct CloneArguments {
  std::string source, target;  // a directory in a mount, and what is to become its copy
};
int clone(const CloneArguments& arguments);

struct ImportArguments {
  std::string source;  // a tar archive or a directory; "-": an archive by standard input
  std::string target;  // the directory that is made
};
int import_tree(const ImportArguments& arguments);  // "import" is a keyword where modules are

struct SnapshotArguments {
  std::string source;               // a directory in a mount
  std::optional<std::string> name;  // nullopt: after the time
};
int snapshot(const SnapshotArguments& arguments);

struct RollbackArguments {
  std::string snapshot;                  // where it is
  std::optional<std::string> directory;  // in the same mount; nullopt: of which the snapshot was made
  bool discard = false;                  // no snapshot is made of what is there
};
int rollback(const RollbackArguments& arguments);

struct SnapshotsArguments {
  std::string directory = ".";  // in a mount
  bool json = false;
  bool sizes = false;
};
int snapshots(const SnapshotsArguments& arguments);

struct DiffArguments {
  std::string from, to;  // directories in one mount
  bool all = false;      // also what lies below a directory that only one has
  bool zero = false;     // entries end with a 0, and nothing is quoted
  bool json = false;
};
int diff(const DiffArguments& arguments);

struct SendArguments {
  std::string snapshot;             // where it is
  std::optional<std::string> from;  // only what differs from this one, of the same mount
  std::optional<std::string> resume;  // a token of receive: what comes behind that
  bool quiet = false;
};
int send(const SendArguments& arguments);

struct ReceiveArguments {
  std::string directory;            // in a mount
  std::optional<std::string> name;  // of the snapshot; nullopt: as it was sent
  bool tokens = false;              // print where what is there in part goes on
  bool quiet = false;
};
int receive(const ReceiveArguments& arguments);

struct ChangesArguments {
  std::vector<std::string> operands;  // a directory in a mount; for git what it gives its hook: the version of their protocol, and a token
  std::optional<std::string> since;   // a token
  bool git = false;                   // who asks is git
  bool zero = false;                  // entries end with a 0, and nothing is quoted
  bool json = false;
};
int changes(const ChangesArguments& arguments);

struct PruneArguments {
  std::string directory;           // in a mount
  std::vector<std::string> rules;  // as "daily=7"
  bool all = false;                // also those to which somebody gave a name
  bool dry_run = false, json = false;
};
int prune(const PruneArguments& arguments);

struct RmArguments {
  std::vector<std::string> directories;
  bool recursive = false;
};
int rm(const RmArguments& arguments);

int trim(const std::string& path);  // any file or directory in a mount

struct ScrubArguments {
  std::string path;  // any file or directory in a mount
  std::string rate;  // bytes a second; empty: the default
};
int scrub(const ScrubArguments& arguments);

struct StatsArguments {
  std::string path;  // any file or directory in a mount
  bool json = false, prometheus = false;
  std::optional<double> interval;  // seconds
};
int stats(const StatsArguments& arguments);

int top(const std::string& path);  // likewise

struct LayoutArguments {
  std::vector<std::string> operands;  // the path; with devices a command and its arguments
  std::vector<std::string> devices;
  std::string output, trace;          // files; empty: none
  std::string buffer;                 // a size; empty: the default
  bool json = false;
  bool drop_caches = false;           // before a command; a walk always begins with it
};
int layout(const LayoutArguments& arguments);

}  // namespace lsmfs::cli
