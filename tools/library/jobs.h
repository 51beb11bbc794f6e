// Work that may crash, abort or hang, each piece in a child process of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace kiln::tools {

// What a piece of work does in its child: the text it returns reaches the parent; an exception's message does so as an
// error.
using Job = std::function<std::string()>;

struct JobResult {
    bool ok = false;
    std::string text;      // what the job returned, or what went wrong: its error, a signal, the time limit
    bool aborted = false;  // whether it ended itself by a signal
    double seconds = 0;
};

// Runs every job, at most `at_once` together, each for at most `time_limit` seconds of the processor's (and for far
// more by the clock, so that one that waits for ever ends too); what a job prints is dropped, but for the last line on
// stderr of one that ends badly. `on_done` is called in this process as each ends. The process must have no other
// threads.
void run_jobs(const std::vector<Job> &jobs, int at_once, double time_limit,
              const std::function<void(size_t index, const JobResult &result)> &on_done);

}  // namespace kiln::tools
