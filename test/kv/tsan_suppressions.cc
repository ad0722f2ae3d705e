// For ThreadSanitizer builds of programs that use the kv layer: the system's RocksDB and zstd are not
// instrumented, so what RocksDB's atomics order looks like races, always with a frame of one of them
// in the report. Linked in rather than passed by environment, so that no way of running forgets it.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:librocksdb\nrace:libzstd\n"; }
