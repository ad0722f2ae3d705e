#include "crash/workloads.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>

namespace lsmfs::test {
namespace {

constexpr std::uint64_t kFoo = 9'000, kAFoo = 14'000;  // bytes
constexpr std::uint64_t kBig = 300'000;     // more than a rename takes along
constexpr std::uint64_t kStream = 400'000;  // bytes
constexpr std::uint64_t kHuge = 4'700'000;  // more rows than are erased one by one
constexpr std::uint64_t kLeft = 5 * MiB;    // on a volume that is nearly full, and less by what is written in one piece

Start make_empty(std::uint64_t size, ByteCount stream_from) {
  SparseDevice device{SparseImage(size)};
  if (const auto formatted = Stack::format(device); !formatted) std::abort();
  Start start{device.image(), {}, stream_from};
  auto stack = Stack::mount(device);
  const auto root = stack ? stack->tree->getattr(kRootIno, Wait::yes) : make_error(EIO, "");
  if (!root) std::abort();
  start.model.root->take_times(*root);
  return start;
}

void populate(Trial& trial) {
  trial.make("A", S_IFDIR | 0755);
  trial.make("B", S_IFDIR | 0755);
  trial.make("A/C", S_IFDIR | 0755);
  trial.make("foo", S_IFREG | 0644);
  trial.write("foo", 0, kFoo);
  trial.make("A/foo", S_IFREG | 0644);
  trial.write("A/foo", 0, kAFoo);
  trial.make("A/C/x", S_IFREG | 0644);
  trial.write("A/C/x", 0, 5'000);
  trial.setxattr("foo", "user.small", 20);
  trial.setxattr("A/foo", "user.large", 6'000);
  trial.sync();
}

std::string full(int number) { return fmt::format("full{}", number); }

Operation rename_of(const std::string& from, const std::string& to, unsigned flags = 0) {
  static const std::map<unsigned, const char*> names{{0, ""}, {RENAME_NOREPLACE, " NOREPLACE"}, {RENAME_EXCHANGE, " EXCHANGE"}, {RENAME_WHITEOUT, " WHITEOUT"}};
  return {"rename " + from + " " + to + names.at(flags), [=](Trial& t) { t.rename(from, to, flags); }};
}

Operation unlink_of_open(const std::string& path) {
  return {"unlink " + path + ", open", [=](Trial& t) {
    t.hold(path);
    t.unlink(path);
  }};
}

std::vector<Operation> make_operations() {
  std::vector<Operation> all;
  const auto add = [&](std::string text, std::function<void(Trial&)> run) { all.push_back({std::move(text), std::move(run)}); };
  const auto rename = [&](const std::string& from, const std::string& to, unsigned flags) { all.push_back(rename_of(from, to, flags)); };

  for (const std::string path : {"bar", "A/bar", "B/bar", "A/C/bar"}) add("creat " + path, [=](Trial& t) { t.make(path, S_IFREG | 0644); });
  for (const std::string path : {"D", "A/D", "B/D"}) add("mkdir " + path, [=](Trial& t) { t.make(path, S_IFDIR | 0755); });
  add("symlink B/bar", [](Trial& t) { t.make("B/bar", S_IFLNK | 0777, "../foo"); });
  add("mkfifo A/bar", [](Trial& t) { t.make("A/bar", S_IFIFO | 0600); });
  for (const std::string path : {"bar", "B/bar"}) add("link of O_TMPFILE to " + path, [=](Trial& t) { t.make_unnamed_and_link(path); });

  for (const std::string path : {"bar", "B/bar", "A"}) add("import " + path, [=](Trial& t) { t.import(path, false); });
  add("import A/bar, with a sync in it", [](Trial& t) { t.import("A/bar", true); });

  for (const auto& [path, size] : {std::pair<std::string, std::uint64_t>{"foo", kFoo}, {"A/foo", kAFoo}}) {
    add("write " + path + ": append", [=](Trial& t) { t.write(path, size, 5'000); });
    add("write " + path + ": inside of a block", [=](Trial& t) { t.write(path, 50, 100); });
    add("write " + path + ": over a whole block", [=](Trial& t) { t.write(path, 4096, 4096); });
    add("write " + path + ": over blocks, not aligned", [=](Trial& t) { t.write(path, 1'000, 6'000); });
    add("write " + path + ": over the end", [=](Trial& t) { t.write(path, size - 2'000, 8'000); });
    add("write " + path + ": beyond the end", [=](Trial& t) { t.write(path, 100'000, 3'000); });
    for (const std::uint64_t to : {0u, 4096u, 5000u, 20000u}) add(fmt::format("truncate {} to {}", path, to), [=](Trial& t) { t.truncate(path, to); });
    const std::array<std::pair<const char*, int>, 5> modes{{{"", 0},
                                                           {" KEEP_SIZE", FALLOC_FL_KEEP_SIZE},
                                                           {" PUNCH_HOLE", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE},
                                                           {" ZERO_RANGE", FALLOC_FL_ZERO_RANGE},
                                                           {" ZERO_RANGE KEEP_SIZE", FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE}}};
    for (const auto& [name, mode] : modes) add("fallocate " + path + name, [=, mode = mode](Trial& t) { t.fallocate(path, mode, 3'000, 20'000); });
    add("setxattr " + path + ": small", [=](Trial& t) { t.setxattr(path, "user.a", 30); });
    add("setxattr " + path + ": large", [=](Trial& t) { t.setxattr(path, "user.b", 20'000); });
    add("setxattr " + path + ": small for large", [=](Trial& t) { t.setxattr(path, "user.large", 10); });
    add("removexattr " + path + ": small", [=](Trial& t) { t.removexattr(path, "user.small"); });
    add("removexattr " + path + ": large", [=](Trial& t) { t.removexattr(path, "user.large"); });
    add("chmod " + path, [=](Trial& t) { t.setattr(path, {.mode = 0600}); });
    add("chown " + path, [=](Trial& t) { t.setattr(path, {.uid = 1000, .gid = 1001}); });
    add("utimens " + path, [=](Trial& t) { t.setattr(path, {.atime = Time{1, 2}, .mtime = Time{-3, 4}}); });
    add("chattr " + path, [=](Trial& t) { t.setattr(path, {.flags = FS_NODUMP_FL | FS_NOATIME_FL}); });
    add("setattr " + path + ": all at once", [=](Trial& t) {
      t.setattr(path, {.mode = 04711, .uid = 1, .gid = 2, .size = 6000, .mtime = Time{5, 6}, .ctime = Time{7, 8}, .flags = FS_NODUMP_FL});
    });
    add("unlink " + path, [=](Trial& t) { t.unlink(path); });
    all.push_back(unlink_of_open(path));
    for (const std::string to : {"bar", "A/bar", "B/bar"}) {
      add("link " + path + " " + to, [=](Trial& t) { t.link(path, to); });
      rename(path, to, 0);
    }
    rename(path, "B/bar", RENAME_NOREPLACE);
    rename(path, "B/bar", RENAME_WHITEOUT);
    rename(path, "A/C/x", 0);
    rename(path, "B", RENAME_EXCHANGE);
  }
  add("chmod A", [](Trial& t) { t.setattr("A", {.mode = 0700}); });
  add("setxattr A", [](Trial& t) { t.setxattr("A", "user.a", 30); });
  add("unlink A/C/x", [](Trial& t) { t.unlink("A/C/x"); });
  add("rmdir B", [](Trial& t) { t.rmdir("B"); });
  add("rmdir B, open", [](Trial& t) {
    t.hold("B");
    t.rmdir("B");
  });
  for (const std::string path : {"A", "A/C", "B"}) add("rm -r " + path, [=](Trial& t) { t.remove_tree(path); });
  add("rm -r A, in use", [](Trial& t) {
    t.hold("A/foo");
    t.hold("A/C");
    t.remove_tree("A");
    t.write("foo", 0, 100);
  });
  add("rm -r A, and a sweep", [](Trial& t) {
    t.remove_tree("A");
    t.sweep();
  });
  add("rm -r A, and another A", [](Trial& t) {
    t.remove_tree("A");
    t.make("A", S_IFDIR | 0755);
    t.make("A/foo", S_IFREG | 0644);
  });
  rename("foo", "A/foo", 0);
  rename("A/foo", "foo", 0);
  rename("foo", "A/foo", RENAME_EXCHANGE);
  rename("A/C", "B/C", 0);
  rename("A/C", "B", 0);
  rename("A/C", "C", 0);
  rename("A", "E", 0);
  rename("A", "B", 0);
  rename("A", "B/A", 0);
  rename("B", "A/D", 0);
  rename("A", "B", RENAME_EXCHANGE);
  rename("A/C", "B", RENAME_EXCHANGE);
  rename("A", "foo", RENAME_EXCHANGE);
  rename("A", "E", RENAME_WHITEOUT);
  return all;
}

constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

// `big` is where its name says, and A/big is not any more.
std::vector<Operation> make_operations_on_big_files() {
  std::vector<Operation> all;
  for (const std::string path : {"big", "A/big"}) {
    all.push_back(rename_of(path, "B/bar"));
    all.push_back(rename_of(path, "A/foo"));  // which is small
    all.push_back(rename_of("foo", path));
    all.push_back(rename_of(path, "foo", RENAME_EXCHANGE));
    all.push_back({"link " + path + " B/bar", [=](Trial& t) { t.link(path, "B/bar"); }});
    all.push_back({"write " + path + ": over the end", [=](Trial& t) { t.write(path, kBig - 5'000, 20'000); }});
    all.push_back({"truncate " + path + " to 5000", [=](Trial& t) { t.truncate(path, 5'000); }});
    all.push_back({"fallocate " + path + " PUNCH_HOLE", [=](Trial& t) { t.fallocate(path, kPunch, 3'000, 250'000); }});
    all.push_back({"unlink " + path, [=](Trial& t) { t.unlink(path); }});
    all.push_back(unlink_of_open(path));
  }
  all.push_back(rename_of("big", "A/big"));
  all.push_back(rename_of("A/big", "big"));
  all.push_back(rename_of("big", "A/big", RENAME_EXCHANGE));
  all.push_back(rename_of("A", "E"));
  return all;
}

std::vector<Operation> make_operations_on_a_huge_file() {
  std::vector<Operation> all;
  for (const std::uint64_t to : {0u, 5'000u}) all.push_back({fmt::format("truncate huge to {}", to), [=](Trial& t) { t.truncate("huge", to); }});
  for (const std::uint64_t from : {0u, 3'000u}) {
    all.push_back({fmt::format("fallocate huge PUNCH_HOLE from {}", from), [=](Trial& t) { t.fallocate("huge", kPunch, from, kHuge - 10'000); }});
  }
  all.push_back({"fallocate huge ZERO_RANGE", [](Trial& t) { t.fallocate("huge", FALLOC_FL_ZERO_RANGE, 0, kHuge); }});
  all.push_back({"unlink huge", [](Trial& t) { t.unlink("huge"); }});
  all.push_back(unlink_of_open("huge"));
  all.push_back(rename_of("foo", "huge"));
  all.push_back(rename_of("huge", "foo"));
  return all;
}

std::vector<Operation> make_operations_on_copies() {
  std::vector<Operation> all;
  for (const std::string path : {"big", "B/copy", "A/big", "B/other"}) {
    const auto add = [&](std::string text, std::function<void(Trial&)> run) { all.push_back({path + ": " + std::move(text), std::move(run)}); };
    add("inside of a block", [=](Trial& t) { t.write(path, 50, 100); });
    add("over whole blocks", [=](Trial& t) { t.write(path, 4 * kBlockSize, 3 * kBlockSize); });
    add("over the end", [=](Trial& t) { t.write(path, kBig - 5'000, 20'000); });
    for (const std::uint64_t to : {0u, 5'000u}) add(fmt::format("truncate to {}", to), [=](Trial& t) { t.truncate(path, to); });
    add("PUNCH_HOLE", [=](Trial& t) { t.fallocate(path, kPunch, 3'000, 250'000); });
    add("unlink, and what is left is dropped", [=](Trial& t) {
      t.unlink(path);
      t.sync();
      t.relocate();
    });
    add("what nobody sees any more goes", [=](Trial& t) {
      std::uint64_t at = 5 * kBlockSize;
      for (const std::string other : {"big", "B/copy", "A/big", "B/other"}) {
        if (other != path) t.write(other, at, 30 * kBlockSize);
        at += 10 * kBlockSize;
      }
      t.unlink(path);
      t.sync();
      while (t.relocate()) t.sync();
    });
    all.push_back(unlink_of_open(path));
    all.push_back(rename_of(path, "bar"));
    all.push_back(rename_of("foo", path));
    add("link", [=](Trial& t) { t.link(path, "bar"); });
    add("copy", [=](Trial& t) {
      t.make("bar", S_IFREG | 0600);
      t.copy(path, "bar");
    });
    add("copy, write, and copy", [=](Trial& t) {
      t.make("bar", S_IFREG | 0600);
      t.copy(path, "bar");
      t.write(path, 20'000, 30'000);
      t.make("again", S_IFREG | 0600);
      t.copy(path, "again");
    });
    add("copy over another", [=](Trial& t) { t.copy(path, path == "big" ? "A/big" : "big"); });
  }
  all.push_back({"unlink all that share", [](Trial& t) {
    for (const char* path : {"big", "B/copy", "B/other", "A/big"}) t.unlink(path);
    t.sync();
    while (t.relocate()) t.sync();
  }});
  all.push_back(rename_of("A", "E"));
  return all;
}

std::vector<Operation> make_operations_on_clones() {
  std::vector<Operation> all;
  for (const std::string top : {"A", "B/clone", "E"}) {
    const auto add = [&](const std::string& text, std::function<void(Trial&)> run) { all.push_back({top + ": " + text, std::move(run)}); };
    add("write foo", [=](Trial& t) { t.write(top + "/foo", 50, 100); });
    add("write big", [=](Trial& t) { t.write(top + "/big", 100'000, 9'000); });
    add("write x", [=](Trial& t) { t.write(top + "/C/x", 4'000, 3'000); });
    add("truncate big", [=](Trial& t) { t.truncate(top + "/big", 5'000); });
    add("punch big", [=](Trial& t) { t.fallocate(top + "/big", kPunch, 3'000, 250'000); });
    add("setxattr foo", [=](Trial& t) { t.setxattr(top + "/foo", "user.large", 9'000); });
    add("removexattr foo", [=](Trial& t) { t.removexattr(top + "/foo", "user.large"); });
    add("chmod", [=](Trial& t) { t.setattr(top, {.mode = 0700}); });
    add("chown x", [=](Trial& t) { t.setattr(top + "/C/x", {.uid = 5, .gid = 6}); });
    add("creat", [=](Trial& t) { t.make(top + "/bar", S_IFREG | 0644); });
    add("creat below", [=](Trial& t) { t.make(top + "/C/bar", S_IFREG | 0644); });
    add("link", [=](Trial& t) { t.link(top + "/C/x", "bar"); });
    add("link in", [=](Trial& t) { t.link("foo", top + "/C/bar"); });
    for (const char* name : {"/foo", "/L/two", "/C/x", "/big"}) {
      add(std::string("unlink ") + name, [=](Trial& t) { t.unlink(top + name); });
      all.push_back(unlink_of_open(top + name));
      all.push_back(rename_of(top + name, "bar"));
      all.push_back(rename_of("foo", top + name));
    }
    all.push_back(rename_of(top + "/C", "bar"));
    all.push_back(rename_of(top, "bar"));
    all.push_back(rename_of("B/empty", top + "/C/empty"));
    all.push_back(rename_of(top + "/C", top == "A" ? "E/C" : "A/C", RENAME_EXCHANGE));
    add("clone", [=](Trial& t) { t.clone(top, "bar"); });
    add("clone in", [=](Trial& t) { t.clone("B/empty", top + "/C/bar"); });
    add("clone below", [=](Trial& t) { t.clone(top + "/C", "bar"); });
    add("clone, and write both", [=](Trial& t) {
      t.clone(top, "bar");
      t.write(top + "/C/x", 10, 100);
      t.write("bar/C/x", 20, 100);
      t.write("bar/big", 20'000, 100);
    });
    add("rm -r below", [=](Trial& t) {
      t.remove_tree(top + "/C");
      t.sweep();
    });
    add("rm -r, and all that nobody sees any more goes", [=](Trial& t) {
      if (t.remove_tree(top) == 0) t.sync();
      for (bool more = true; more;) {
        more = t.sweep();
        more |= t.relocate();
        t.sync();
      }
    });
    add("unlink all", [=](Trial& t) {
      for (const char* name : {"/C/x", "/L/one", "/L/two", "/foo", "/big"}) t.unlink(top + name);
      for (const char* name : {"/C", "/L"}) t.rmdir(top + name);
      t.rmdir(top);
      t.relocate();
    });
  }
  all.push_back({"rm -r all of them", [](Trial& t) {
    for (const char* top : {"B", "A", "E"}) {
      t.remove_tree(top);
      t.sweep();
    }
    t.sync();
    for (bool more = true; more;) {
      more = t.sweep();
      more |= t.relocate();
      t.sync();
    }
  }});
  return all;
}

std::vector<Operation> make_operations_after_clones() {
  std::vector<Operation> all;
  for (const Operation& operation : operations()) {
    for (const bool synced : {false, true}) {
      all.push_back({synced ? "clone; sync; " + operation.text : "clone; " + operation.text, [=](Trial& t) {
        t.clone("A", "cloned");
        t.clone("A/C", "B/cloned");
        if (synced) t.sync();
        operation.run(t);
        t.write("cloned/foo", 10, 100);
      }});
    }
  }
  return all;
}

// What nobody sees any more goes.
void let_go(Trial& trial) {
  trial.sync();
  for (bool more = true; more;) {
    more = trial.sweep();
    more |= trial.relocate();
    trial.sync();
  }
}

std::vector<Operation> make_operations_with_snapshots() {
  std::vector<Operation> all;
  const auto add = [&](const std::string& text, std::function<void(Trial&)> run) { all.push_back({text, std::move(run)}); };
  for (const std::string of : {"", "A", "A/C", "B/clone", ".snapshots/all/A", ".snapshots/of A"}) {
    const auto change = [=](Trial& t) {
      t.write(of.empty() ? "A/foo" : of.ends_with("C") ? of + "/x" : of + "/foo", 50, 100);
      t.make(of.empty() ? "bar" : of + "/bar", S_IFREG | 0644);
    };
    add("snapshot of /" + of, [=](Trial& t) { t.clone(of, ".snapshots/new"); });
    add("snapshot of /" + of + ", and change it", [=](Trial& t) {
      t.clone(of, ".snapshots/new");
      change(t);
    });
    add("snapshot of /" + of + ", sync, and change it", [=](Trial& t) {
      t.clone(of, ".snapshots/new");
      t.sync();
      change(t);
    });
    add("two snapshots of /" + of + ", one of which goes", [=](Trial& t) {
      t.clone(of, ".snapshots/new");
      change(t);
      t.clone(of, ".snapshots/newer");
      t.remove_tree(".snapshots/new");
      t.sweep();
    });
  }
  for (const char* name : {"all", "of A", "again"}) {
    const std::string path = std::string(".snapshots/") + name;
    add("rm -r " + path, [=](Trial& t) {
      t.remove_tree(path);
      t.sweep();
    });
    add("rm -r " + path + ", and what nobody sees any more goes", [=](Trial& t) {
      t.remove_tree(path);
      let_go(t);
    });
    all.push_back(rename_of(path, ".snapshots/renamed"));
    all.push_back(rename_of(path, ".snapshots/other", RENAME_EXCHANGE));
    add("clone " + path, [=](Trial& t) { t.clone(path, "back"); });
    add("clone " + path + ", and write", [=](Trial& t) {
      t.clone(path, "back");
      t.write(path == ".snapshots/of A" ? "back/C/x" : "back/A/C/x", 10, 100);
      t.remove_tree(path);
    });
    for (const std::string to : {"", "A", "A/C", "B/empty"}) {
      const std::string in = to.empty() ? "" : to + "/";
      add("roll back /" + to + " to " + path, [=](Trial& t) { t.roll_back(to, path); });
      add("change /" + to + ", roll it back to " + path + ", and what was there goes", [=](Trial& t) {
        t.make(in + "bar", S_IFREG | 0644);
        t.roll_back(to, path);
        t.make(in + "new", S_IFREG | 0644);
        let_go(t);
      });
    }
    add("roll back A to " + path + ", which goes", [=](Trial& t) {
      t.hold("A/foo");
      t.roll_back("A", path);
      t.sync();
      t.remove_tree(path);
      let_go(t);
    });
    add("what is refused in " + path, [=](Trial& t) {
      const std::string file = path + "/foo";
      t.write(file, 10, 100);
      t.setattr(file, {.mode = 0600});
      t.unlink(file);
      t.make(path + "/bar", S_IFREG | 0644);
      t.rename(path, "bar");
      t.rename("foo", path + "/bar");
    });
  }
  for (const char* top : {"A", "E"}) {
    add(std::string("rm -r ") + top, [=](Trial& t) {
      t.remove_tree(top);
      let_go(t);
    });
  }
  add("write A/foo", [](Trial& t) { t.write("A/foo", 50, 100); });
  add("write A/big", [](Trial& t) { t.write("A/big", 100'000, 9'000); });
  add("write A/C/x", [](Trial& t) { t.write("A/C/x", 4'000, 3'000); });
  add("chmod of the directory of snapshots", [](Trial& t) { t.setattr(".snapshots", {.mode = 0700}); });
  add("setxattr of the directory of snapshots", [](Trial& t) { t.setxattr(".snapshots", "user.large", 9'000); });
  add("rm -r all snapshots", [](Trial& t) {
    for (const char* name : {"all", "of A", "again", "other"}) t.remove_tree(std::string(".snapshots/") + name);
    let_go(t);
  });
  add("rm -r all that is no snapshot", [](Trial& t) {
    for (const char* name : {"A", "B", "E"}) t.remove_tree(name);
    for (const char* name : {"foo", "big"}) t.unlink(name);
    let_go(t);
  });
  return all;
}

std::vector<Operation> make_operations_after_snapshots() {
  std::vector<Operation> all;
  for (const Operation& operation : operations()) {
    for (const bool synced : {false, true}) {
      all.push_back({synced ? "snapshot; sync; " + operation.text : "snapshot; " + operation.text, [=](Trial& t) {
        t.clone("", ".snapshots/all");
        if (synced) t.sync();
        operation.run(t);
      }});
    }
  }
  return all;
}

std::vector<Operation> make_operations_on_streams() {
  const std::string path = "A/stream";
  std::vector<Operation> all;
  const auto add = [&](std::string text, std::function<void(Trial&)> run) { all.push_back({path + ": " + std::move(text), std::move(run)}); };
  const auto write = [path](std::uint64_t from, std::uint64_t size) { return [=](Trial& t) { t.write(path, from, size); }; };
  add("append", write(kStream, 50'000));
  add("append twice, with a sync", [=](Trial& t) {
    t.write(path, kStream, 50'000);
    t.sync();
    t.write(path, kStream + 50'000, 70'000);
  });
  add("append to two, in turn", [=](Trial& t) {
    for (std::uint64_t i = 0; i < 4; ++i) {
      t.write(path, kStream + i * 20'000, 20'000);
      t.write("foo", kFoo + i * 9'000, 9'000);
    }
  });
  add("over whole blocks", write(40 * kBlockSize, 5 * kBlockSize));
  add("inside of a block", write(40 * kBlockSize + 100, 200));
  add("over blocks, not aligned", write(40 * kBlockSize + 100, 30'000));
  add("over the end", write(kStream - 5'000, 20'000));
  add("beyond the end", write(kStream + 100'000, 3'000));
  add("append, and over that", [=](Trial& t) {
    t.write(path, kStream, 50'000);
    t.write(path, kStream + 10'000, 20'000);
  });
  for (const std::uint64_t to : {0u, 5'000u, 200'000u}) add(fmt::format("truncate to {}", to), [=](Trial& t) { t.truncate(path, to); });
  add("truncate, and append", [=](Trial& t) {
    t.truncate(path, 200'000);
    t.write(path, 200'000, 50'000);
  });
  add("PUNCH_HOLE", [=](Trial& t) { t.fallocate(path, kPunch, 30'000, 200'000); });
  add("ZERO_RANGE", [=](Trial& t) { t.fallocate(path, FALLOC_FL_ZERO_RANGE, 0, kStream); });
  all.push_back({"unlink " + path, [=](Trial& t) { t.unlink(path); }});
  all.push_back(unlink_of_open(path));
  all.push_back({"unlink and make " + path, [=](Trial& t) {
    t.unlink(path);
    t.sync();
    t.make(path, S_IFREG | 0644);
    for (std::uint64_t at = 0; at < 200'000; at += 50'000) t.write(path, at, 50'000);
  }});
  all.push_back(rename_of(path, "bar"));
  all.push_back(rename_of("foo", path));
  all.push_back(rename_of("A", "B"));
  all.push_back({"link " + path + " B/bar", [=](Trial& t) { t.link(path, "B/bar"); }});
  return all;
}

}  // namespace

const Start& empty_start() {
  static const Start start = make_empty(kDeviceMin, TreeOptions().stream_from);
  return start;
}

const Start& start_in_tables() {
  static const Start start = [] {
    Trial trial(empty_start());
    populate(trial);
    trial.flush();
    return trial.close();
  }();
  return start;
}

const Start& start_in_log() {
  static const Start start = [] {
    Trial trial(empty_start());
    populate(trial);
    return trial.cut();
  }();
  return start;
}

const Start& start_before_switch() {
  static const Start start = [] {
    // Each change of names is a record of two blocks, right after the one before; what goes elsewhere has switched.
    const auto fill = [](SparseDevice& device, std::size_t records) -> std::size_t {
      const auto volume = Volume::open(device);
      if (!volume) std::abort();
      device.record();
      for (std::size_t i = 0; i < records; ++i) {
        const auto filler = (*volume)->create("filler", FileKind::small);
        if (!filler || !(*volume)->commit()) std::abort();
        const std::vector<TraceEvent> trace = device.trace();
        if (i > 0 && trace[trace.size() - 2].at != trace[trace.size() - 4].at + 2 * kDeviceBlock) return i;
      }
      return records;
    };
    SparseDevice first(start_in_log().image);
    const std::size_t switches_at = fill(first, 1 << 20);
    SparseDevice second(start_in_log().image);
    fill(second, switches_at - 3);
    return Start{second.image(), start_in_log().model.copy()};
  }();
  return start;
}

const Start& start_with_big_files() {
  static const Start start = [] {
    Trial trial(start_in_tables());
    for (const char* path : {"big", "moved"}) {
      trial.make(path, S_IFREG | 0644);
      trial.write(path, 0, kBig);
    }
    trial.rename("moved", "A/big");
    trial.flush();
    return trial.close();
  }();
  return start;
}

const Start& start_with_copies() {
  static const Start start = [] {
    Trial trial(start_with_big_files());
    for (const auto& [from, to] : {std::pair("big", "B/copy"), {"A/big", "B/other"}}) {
      trial.make(to, S_IFREG | 0644);
      trial.copy(from, to);
    }
    trial.write("A/big", 50'000, 10'000);
    trial.flush();
    return trial.close();
  }();
  return start;
}

const Start& start_with_clones() {
  static const Start start = [] {
    Trial trial(start_with_big_files());
    trial.make("A/L", S_IFDIR | 0755);
    trial.make("A/L/one", S_IFREG | 0644);
    trial.write("A/L/one", 0, 7'000);
    trial.link("A/L/one", "A/L/two");
    trial.make("B/empty", S_IFDIR | 0755);
    trial.clone("A", "B/clone");
    trial.clone("B/clone", "E");
    trial.write("E/C/x", 100, 200);
    trial.write("E/big", 50'000, 10'000);
    trial.flush();
    return trial.close();
  }();
  return start;
}

const Start& start_with_snapshots() {
  static const Start start = [] {
    Trial trial(start_with_clones());
    trial.clone("", ".snapshots/all");
    trial.write("A/C/x", 300, 200);
    trial.clone("A", ".snapshots/of A");
    trial.setattr("A", {.mode = 0711});
    trial.clone("", ".snapshots/again");
    trial.write("A/big", 30'000, 10'000);
    trial.make("B/empty/new", S_IFREG | 0644);
    trial.clone("B/empty", ".snapshots/other");
    trial.flush();
    return trial.close();
  }();
  return start;
}

const Start& start_with_a_huge_file() {
  static const Start start = [] {
    Trial trial(empty_start());
    trial.make("foo", S_IFREG | 0644);
    trial.write("foo", 0, kFoo);
    trial.make("huge", S_IFREG | 0644);
    for (std::uint64_t at = 0; at < kHuge; at += kHuge / 10) trial.write("huge", at, kHuge / 10);
    trial.flush();
    return trial.close();
  }();
  return start;
}

const Start& start_with_streams() {
  static const Start start = [] {
    Trial trial(make_empty(GiB, ByteCount{kBlockSize}));
    populate(trial);
    trial.make("A/stream", S_IFREG | 0644);
    for (std::uint64_t at = 0; at < kStream; at += kStream / 10) {
      trial.write("A/stream", at, kStream / 10);
      trial.sync();
    }
    return trial.close();
  }();
  return start;
}

const Start& start_with_orphans() {
  static const Start start = [] {
    Trial trial(start_with_a_huge_file());
    for (const char* path : {"huge", "foo"}) unlink_of_open(path).run(trial);
    trial.sync();
    return trial.cut();
  }();
  return start;
}

const Start& start_nearly_full() {
  static const Start start = [] {
    Trial trial(start_in_tables());
    std::uint64_t size = kFull;
    for (int file = -1; trial.room().v > kLeft;) {
      if (size == kFull) {
        trial.make(full(++file), S_IFREG | 0644);
        size = 0;
      }
      trial.write(full(file), size, kFull / 8);
      size += kFull / 8;
    }
    trial.flush();
    return trial.cut();
  }();
  return start;
}

std::string write_over(Trial& trial, std::mt19937_64& random, std::uint64_t bytes) {
  static const std::uint64_t files = start_nearly_full().model.root->entries.size() - start_in_tables().model.root->entries.size() - 1;  // whole ones
  std::string story;
  for (std::uint64_t written = 0; written < bytes;) {
    const std::string path = full(static_cast<int>(random() % files));
    const std::uint64_t dice = random() % 16;
    std::uint64_t from = random() % kFull, size = std::min(1 + random() % (256 * KiB), kFull - from);
    if (dice == 0) {
      trial.unlink(path);
      trial.make(path, S_IFREG | 0644);
      from = 0;
    }
    if (dice == 1) trial.truncate(path, from);
    if (dice <= 1) size = kFull - from;
    trial.write(path, from, size);
    if (dice == 2 || dice == 3) trial.sync();
    if (dice == 4) trial.flush();
    story += fmt::format("{} {} from {}{}; ", path, dice == 0 ? "new" : dice == 1 ? "cut" : "written", from, dice == 2 || dice == 3 ? ", sync" : dice == 4 ? ", flush" : "");
    written += size;
  }
  return story;
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = make_operations();
  return all;
}

const std::vector<Operation>& operations_on_streams() {
  static const std::vector<Operation> all = make_operations_on_streams();
  return all;
}

const std::vector<Operation>& operations_on_copies() {
  static const std::vector<Operation> all = make_operations_on_copies();
  return all;
}

const std::vector<Operation>& operations_on_clones() {
  static const std::vector<Operation> all = make_operations_on_clones();
  return all;
}

const std::vector<Operation>& operations_after_clones() {
  static const std::vector<Operation> all = make_operations_after_clones();
  return all;
}

const std::vector<Operation>& operations_with_snapshots() {
  static const std::vector<Operation> all = make_operations_with_snapshots();
  return all;
}

const std::vector<Operation>& operations_after_snapshots() {
  static const std::vector<Operation> all = make_operations_after_snapshots();
  return all;
}

const std::vector<Operation>& operations_on_big_files() {
  static const std::vector<Operation> all = make_operations_on_big_files();
  return all;
}

const std::vector<Operation>& operations_on_a_huge_file() {
  static const std::vector<Operation> all = make_operations_on_a_huge_file();
  return all;
}

}  // namespace lsmfs::test
