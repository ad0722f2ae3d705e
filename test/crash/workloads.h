// The operations whose crashes are tried, and the tree on which they begin. What is enumerated follows ACE of
// "Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing" (OSDI'18): a few files and directories, each
// operation in each of its kinds; plus what keys by path make special: directories that are not empty renamed,
// exchanged, replaced; links across directories.
#pragma once

#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "crash/trial.h"

namespace lsmfs::test {

// LSMFS_LONG=1: all that the tests otherwise sample.
inline bool everything() { return std::getenv("LSMFS_LONG") != nullptr; }

// What the environment says, as LSMFS_SEED.
inline std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Operation {
  std::string text;
  std::function<void(Trial&)> run;
};

// A volume with an empty tree.
const Start& empty_start();
// On it: foo, A/foo, A/C/x with data, B empty, and attributes; all of it in tables, or none but in the log.
const Start& start_in_tables();
const Start& start_in_log();
// The latter, with a metadata log that is nearly full: two or three more records, and it goes on in its other area.
const Start& start_before_switch();
// start_in_tables(), and big files, of which a rename moves no blocks: `big` lies where its name says, A/big has been renamed.
const Start& start_with_big_files();
// The latter, and copies that share blocks: B/copy those of `big`, and B/other those of A/big, which was changed since.
const Start& start_with_copies();
// start_with_big_files() with A/L, which has two names of a file, and clones: B/clone of A, and E of that, in which some was changed since.
const Start& start_with_clones();
// That one with snapshots: of everything, then of A, and again of everything, with a change before each; and with one after them.
const Start& start_with_snapshots();
// foo, and a file of more rows than are erased one by one.
const Start& start_with_a_huge_file();
// On a larger volume, where nearly all that is appended goes into blobs: foo, and A/stream, of which the first block has a row alone.
const Start& start_with_streams();
// The one before, after a crash at which both had lost their names and were open.
const Start& start_with_orphans();
// start_in_tables(), and files full0, full1 ... of kFull bytes that leave room for next to nothing.
const Start& start_nearly_full();
inline constexpr std::uint64_t kFull = 4 * MiB;

// On the latter, so many bytes are written over at random; now and then a file is cut, or removed, and is as long as before afterwards.
// Gives what it did.
std::string write_over(Trial& trial, std::mt19937_64& random, std::uint64_t bytes);

const std::vector<Operation>& operations();
// For those with a big and with a huge file.
const std::vector<Operation>& operations_on_big_files();
const std::vector<Operation>& operations_on_a_huge_file();
const std::vector<Operation>& operations_on_copies();
const std::vector<Operation>& operations_on_streams();
const std::vector<Operation>& operations_on_clones();
// operations(), each right after a clone of the directory where it does most of its work, and one of its target.
const std::vector<Operation>& operations_after_clones();
const std::vector<Operation>& operations_with_snapshots();
// operations(), each right after a snapshot of everything.
const std::vector<Operation>& operations_after_snapshots();

}  // namespace lsmfs::test
