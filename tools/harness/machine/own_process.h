// Work that kernels do, in a process of its own: one that overflows its stack, or that the system ends for want of
// memory, ends no more than that.
#pragma once

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <type_traits>

namespace kiln::harness {

// Plain values in memory that this process shares with those it forks: what the work tells of how far it got.
template <class T>
class Shared {
  public:
    Shared() {
        static_assert(std::is_trivially_destructible_v<T>);
        void *memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            std::fprintf(stderr, "no memory to share with another process\n");
            std::exit(1);
        }
        value_ = new (memory) T{};
    }
    ~Shared() { munmap(value_, sizeof(T)); }
    Shared(const Shared &) = delete;
    Shared &operator=(const Shared &) = delete;

    T *operator->() const { return value_; }
    T &operator*() const { return *value_; }

  private:
    T *value_;
};

// Does the work in a child process, or in this one where the system gives no other, and waits for its end. Returns ""
// or what ended it before: "was ended by signal 9 (Killed)". This process must have no threads; those of the work are
// the child's.
std::string in_own_process(const std::function<void()> &work);

}  // namespace kiln::harness
