// How much is under way on a fleet.
#pragma once

#include <cstddef>

namespace kiln::tools {

// Compilers stay just ahead of timers: at most a batch waits for each timer. Once as much is under way, no more is
// wanted until a sixteenth of it is done: what has to be done before anything is chosen, records brought to a disk, is
// done for many batches at once then.
class Backlog {
  public:
    void set_machines(size_t timers, size_t compilers) {
        timers_ = timers;
        compilers_ = compilers;
        look();
    }
    void compile(int more) {
        compiling_ += more;
        look();
    }
    void time(int more) {
        timing_ += more;
        look();
    }

    bool wants_work() const { return wants_work_; }
    size_t timers() const { return timers_; }
    size_t compilers() const { return compilers_; }

  private:
    void look() {
        const size_t most = 2 * timers_;
        if (compiling_ >= compilers_ || timing_ >= most) {
            wants_work_ = false;
        } else if (compiling_ <= compilers_ - compilers_ / 16 && timing_ <= most - most / 16) {
            wants_work_ = true;
        }
    }

    size_t timers_ = 0, compilers_ = 0;  // machines
    size_t compiling_ = 0, timing_ = 0;  // candidates; batches
    bool wants_work_ = false;
};

}  // namespace kiln::tools
