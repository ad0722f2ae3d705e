// mutex: mutexes whose use a compiler checks. What a mutex guards says so where it is declared, and so does a function that must be
// called with one held. Clang then finds uses without it, by -Wthread-safety (test/locks); other compilers see nothing of all this.
//
// What they are not: locks of another kind. Mutex is std::mutex and MutexLock is std::unique_lock, so that condition variables take them.
// What the analysis does not see: constructors and destructors, a lock that is handed on, and that two names are of one mutex. A lambda
// is a function of its own, which needs its own LSMFS_REQUIRES.
// The attributes are described at https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <mutex>
#include <shared_mutex>

#ifdef __clang__
#define LSMFS_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define LSMFS_THREAD_ATTRIBUTE(attribute)
#endif

// Of a member: may be used with the mutex held only.
#define LSMFS_GUARDED_BY(mutex) LSMFS_THREAD_ATTRIBUTE(guarded_by(mutex))
// Of a mutex: in which order they are taken. Tells the reader; clang does not check it.
#define LSMFS_ACQUIRED_BEFORE(...) LSMFS_THREAD_ATTRIBUTE(acquired_before(__VA_ARGS__))
// Of a function: its caller holds the mutex; it may let go of it meanwhile.
#define LSMFS_REQUIRES(...) LSMFS_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define LSMFS_REQUIRES_SHARED(...) LSMFS_THREAD_ATTRIBUTE(requires_shared_capability(__VA_ARGS__))
// Of a function that takes the mutex, or lets go of it.
#define LSMFS_ACQUIRE(...) LSMFS_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define LSMFS_ACQUIRE_SHARED(...) LSMFS_THREAD_ATTRIBUTE(acquire_shared_capability(__VA_ARGS__))
#define LSMFS_TRY_ACQUIRE(...) LSMFS_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define LSMFS_RELEASE(...) LSMFS_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define LSMFS_RELEASE_SHARED(...) LSMFS_THREAD_ATTRIBUTE(release_shared_capability(__VA_ARGS__))
// Of a class: is a mutex; is a lock that holds one until its end.
#define LSMFS_CAPABILITY(what) LSMFS_THREAD_ATTRIBUTE(capability(what))
#define LSMFS_SCOPED_CAPABILITY LSMFS_THREAD_ATTRIBUTE(scoped_lockable)
// Of a function whose locks cannot be followed; it says why.
#define LSMFS_NOT_ANALYSED LSMFS_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace lsmfs {

class LSMFS_CAPABILITY("mutex") Mutex : public std::mutex {
 public:
  void lock() LSMFS_ACQUIRE() { std::mutex::lock(); }
  bool try_lock() LSMFS_TRY_ACQUIRE(true) { return std::mutex::try_lock(); }
  void unlock() LSMFS_RELEASE() { std::mutex::unlock(); }
};

class LSMFS_CAPABILITY("mutex") SharedMutex : public std::shared_mutex {
 public:
  void lock() LSMFS_ACQUIRE() { std::shared_mutex::lock(); }
  void unlock() LSMFS_RELEASE() { std::shared_mutex::unlock(); }
  void lock_shared() LSMFS_ACQUIRE_SHARED() { std::shared_mutex::lock_shared(); }
  void unlock_shared() LSMFS_RELEASE_SHARED() { std::shared_mutex::unlock_shared(); }
};

class LSMFS_SCOPED_CAPABILITY MutexLock : public std::unique_lock<std::mutex> {
 public:
  explicit MutexLock(Mutex& mutex) LSMFS_ACQUIRE(mutex) : unique_lock(mutex) {}
  ~MutexLock() LSMFS_RELEASE() {}
  void lock() LSMFS_ACQUIRE() { unique_lock::lock(); }
  void unlock() LSMFS_RELEASE() { unique_lock::unlock(); }
};

// Lets go of a mutex that is held until the end of a scope.
class LSMFS_SCOPED_CAPABILITY Unlocked {
 public:
  explicit Unlocked(Mutex& mutex) LSMFS_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~Unlocked() LSMFS_RELEASE() { mutex_.lock(); }  // of what the constructor did: it holds the mutex again
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  Mutex& mutex_;
};

class LSMFS_SCOPED_CAPABILITY ExclusiveLock : std::unique_lock<std::shared_mutex> {
 public:
  explicit ExclusiveLock(SharedMutex& mutex) LSMFS_ACQUIRE(mutex) : unique_lock(mutex) {}
  ~ExclusiveLock() LSMFS_RELEASE() {}
};

class LSMFS_SCOPED_CAPABILITY SharedLock : std::shared_lock<std::shared_mutex> {
 public:
  explicit SharedLock(SharedMutex& mutex) LSMFS_ACQUIRE_SHARED(mutex) : shared_lock(mutex) {}
  ~SharedLock() LSMFS_RELEASE() {}
};

}  // namespace lsmfs
