#include "harness/tensors/guard.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

namespace kiln::harness {
namespace {

constexpr unsigned char canary = 0xa5;

// The buffers that exist, for the fault handler to name one.
std::vector<const GuardedBuffer *> &live_buffers() {
    static std::vector<const GuardedBuffer *> buffers;
    return buffers;
}

size_t round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

GuardedBuffer::GuardedBuffer(const char *name, size_t bytes, Side side, size_t alignment, unsigned char fill)
    : name_(name), bytes_(bytes), page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    const size_t before = side == Side::between ? alignment : 0;
    const size_t inner = round_up(std::max<size_t>(before + bytes, 1), page_);
    mapped_bytes_ = inner + 2 * page_;
    void *mapping = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        std::fprintf(stderr, "no memory for %zu bytes of %s\n", bytes, name);
        std::exit(1);
    }
    mapping_ = static_cast<unsigned char *>(mapping);
    unsigned char *begin = mapping_ + page_;
    mprotect(begin, inner, PROT_READ | PROT_WRITE);
    std::memset(begin, canary, inner);
    data_ = begin + (side == Side::end ? (inner - bytes) / alignment * alignment : before);
    std::memset(data_, fill, bytes);
    live_buffers().push_back(this);
}

GuardedBuffer::GuardedBuffer(const char *name, const std::vector<char> &data, Side side, size_t alignment)
    : GuardedBuffer(name, data.size(), side, alignment, 0) {
    std::copy(data.begin(), data.end(), static_cast<char *>(this->data()));
    make_read_only();
}

void GuardedBuffer::make_read_only() {
    mprotect(mapping_ + page_, mapped_bytes_ - 2 * page_, PROT_READ);
}

GuardedBuffer::~GuardedBuffer() {
    auto &live = live_buffers();
    live.erase(std::find(live.begin(), live.end(), this));
    munmap(mapping_, mapped_bytes_);
}

std::string GuardedBuffer::stray_write() const {
    const unsigned char *begin = mapping_ + page_, *end = mapping_ + mapped_bytes_ - page_;
    for (const unsigned char *byte = begin; byte < end; ++byte) {
        if (byte == data_) byte += bytes_;
        if (byte < end && *byte != canary) return "a write " + describe(byte);
    }
    return "";
}

std::string GuardedBuffer::describe(const void *address) const {
    const auto at = reinterpret_cast<intptr_t>(address), data = reinterpret_cast<intptr_t>(data_);
    const auto mapping = reinterpret_cast<intptr_t>(mapping_);
    if (at < mapping || at >= mapping + static_cast<intptr_t>(mapped_bytes_)) return "";
    const intptr_t past = at - data - static_cast<intptr_t>(bytes_);
    if (past >= 0) return std::to_string(past) + " bytes past the end of " + name_;
    if (at < data) return std::to_string(data - at) + " bytes before the beginning of " + name_;
    return "at byte " + std::to_string(at - data) + " of " + name_;
}

namespace {

constexpr int fault_signals[] = {SIGSEGV, SIGBUS, SIGILL};

sigjmp_buf after_fault;
pthread_t guarded_thread;
const void *fault_address;
const std::string *guarded_what;

std::string describe_fault(int signal, const void *address) {
    if (signal == SIGILL) return "an instruction that this processor lacks";
    for (const GuardedBuffer *buffer : live_buffers())
        if (std::string where = buffer->describe(address); !where.empty()) return "an access " + where;
    char text[64];
    std::snprintf(text, sizeof text, "an access at %p, far from every tensor", address);
    return text;
}

void on_fault(int signal, siginfo_t *info, void *) {
    fault_address = info->si_addr;
    if (pthread_equal(pthread_self(), guarded_thread)) siglongjmp(after_fault, signal);
    // The process is lost: what this calls need not be safe in a signal handler.
    std::fprintf(stderr, "%s: %s\n", guarded_what->c_str(), describe_fault(signal, fault_address).c_str());
    _exit(1);
}

}  // namespace

std::string catch_faults(const std::string &what, const std::function<void()> &function) {
    struct sigaction handler {
    }, old[std::size(fault_signals)];
    handler.sa_sigaction = on_fault;
    handler.sa_flags = SA_SIGINFO;
    guarded_thread = pthread_self();
    guarded_what = &what;
    for (size_t i = 0; i < std::size(fault_signals); ++i) sigaction(fault_signals[i], &handler, &old[i]);
    // Saves the signal mask too: the handler is left with its signal blocked.
    volatile int signal = sigsetjmp(after_fault, 1);
    if (signal == 0) function();
    for (size_t i = 0; i < std::size(fault_signals); ++i) sigaction(fault_signals[i], &old[i], nullptr);
    return signal == 0 ? "" : describe_fault(signal, fault_address);
}

}  // namespace kiln::harness
