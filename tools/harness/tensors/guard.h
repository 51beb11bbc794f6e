// Buffers between guard pages: an access outside them that reaches the next page is caught, and named; a write that
// does not reach it is found afterwards.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace kiln::harness {

class GuardedBuffer {
  public:
    // `between` is at no guard page: the data begins `alignment` bytes past a multiple of a page, and so at a multiple
    // of nothing larger.
    enum class Side { begin, end, between };

    // `bytes` bytes, each `fill`, as near to the guard page on `side` as `alignment` (a power of two) lets them lie.
    // `name` is what messages call the buffer. Ends the program if the system has no memory.
    GuardedBuffer(const char *name, size_t bytes, Side side, size_t alignment, unsigned char fill);
    // A copy of `data` that can only be read.
    GuardedBuffer(const char *name, const std::vector<char> &data, Side side, size_t alignment);
    ~GuardedBuffer();
    GuardedBuffer(const GuardedBuffer &) = delete;
    GuardedBuffer &operator=(const GuardedBuffer &) = delete;

    void *data() const { return data_; }

    // From now on a write to it is a fault.
    void make_read_only();

    // "" or where a byte was written between the buffer and its guard pages.
    std::string stray_write() const;

    // "" or, for an address near this buffer, in words where it lies.
    std::string describe(const void *address) const;

  private:
    const char *name_;
    size_t bytes_, mapped_bytes_, page_;
    unsigned char *mapping_ = nullptr, *data_ = nullptr;
};

// Calls `function`. Returns "" or, if it touched memory that it must not touch, what it did; then the call was
// abandoned at that point. A fault in another thread meanwhile ends the program, saying `what` and the same words.
std::string catch_faults(const std::string &what, const std::function<void()> &function);

}  // namespace kiln::harness
