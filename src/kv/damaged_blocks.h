// kv/damaged_blocks: whether this thread has just read a block of a table whose checksum is wrong.
//
// RocksDB's iterators (up to 8.2) can lose that on the way up where one table ends and the next one begins, and then pass over the
// rows of that table and of all after it in its level as if they did not exist. So a cursor asks here after each step.
// What it is not: for gets and compactions, whose iterators do not stop at the ends of tables.
//
// Threads: RocksDB reads and verifies in the thread that asks for a row.
#pragma once

#include <cstdint>

namespace lsmfs::kv {

// How many, so far. Always 0 with a RocksDB that loses none.
std::uint64_t damaged_blocks_of_this_thread();

}  // namespace lsmfs::kv
