#include "library/jobs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <optional>

#include "fmt/format.h"
#include "layers/spec.h"

namespace kiln::tools {
namespace {

using Clock = std::chrono::steady_clock;

// A job that waits, for whatever, ends by the clock on the wall: after so many times what it may compute, and not
// before so many seconds.
constexpr double wall_clock_times = 20, least_wall_clock = 60;

struct Child {
    size_t index;
    pid_t process;
    int pipe;  // its result, read as it comes
    int said;  // what it writes to stderr, a file in memory
    std::string text;
    Clock::time_point started;
    std::string timed_out;  // what it took too much of, in words; empty while it runs in time
};

void write_all(int file, const std::string &text) {
    for (size_t at = 0; at < text.size();) {
        const ssize_t written = write(file, text.data() + at, text.size() - at);
        if (written < 0 && errno != EINTR) {
            return;
        }
        at += std::max<ssize_t>(written, 0);
    }
}

// The child's whole life. Its first byte tells success from failure.
[[noreturn]] void live(const Job &job, int result, int said) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // however the parent ends
    const int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    dup2(said < 0 ? nowhere : said, STDERR_FILENO);
    for (const int fatal : {SIGINT, SIGTERM, SIGHUP}) {
        signal(fatal, SIG_DFL);  // cleaning up is the parent's
    }
    std::string text;
    try {
        text = "+" + job();
    } catch (const std::bad_alloc &) {
        text = "-out of memory";
    } catch (const std::exception &error) {
        text = std::string("-") + error.what();
    }
    write_all(result, text);
    _exit(0);
}

// Nothing, and errno, where there is no room for one more.
std::optional<Child> start(size_t index, const Job &job) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return std::nullopt;
    }
    const int said = memfd_create("stderr", MFD_CLOEXEC);
    const pid_t process = fork();
    if (process < 0) {
        const int error = errno;
        for (const int file : {ends[0], ends[1], said}) {
            close(file);
        }
        errno = error;
        return std::nullopt;
    }
    if (process == 0) {
        live(job, ends[1], said);
    }
    close(ends[1]);
    return Child{index, process, ends[0], said, "", Clock::now(), ""};
}

// The last line a child wrote to stderr, with ": " in front; "" if there is none.
std::string last_words(const Child &child) {
    std::string text(4096, ' ');
    const off_t size = lseek(child.said, 0, SEEK_END);
    const ssize_t got = pread(child.said, text.data(), text.size(), std::max<off_t>(0, size - 4096));
    text.resize(std::max<ssize_t>(got, 0));
    while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
        text.pop_back();
    }
    return text.empty() ? "" : ": " + text.substr(text.rfind('\n') + 1);
}

// The processor's seconds that a child's threads have used; 0 where that cannot be told.
double processor_seconds(const Child &child) {
    clockid_t clock;
    timespec used = {};
    if (clock_getcpuclockid(child.process, &clock) != 0 || clock_gettime(clock, &used) != 0) {
        return 0;
    }
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

double elapsed_seconds(const Child &child) {
    return std::chrono::duration<double>(Clock::now() - child.started).count();
}

// Ends a child that computes for longer than the limit. The clock on the wall would end good ones too where the machine
// is busy.
void end_late(Child &child, double time_limit) {
    if (!child.timed_out.empty()) {
        return;
    }
    const double most = std::max(least_wall_clock, wall_clock_times * time_limit);
    if (processor_seconds(child) > time_limit) {
        child.timed_out = fmt::format("took more than the {} seconds allowed (--time-limit)", time_limit);
    } else if (elapsed_seconds(child) > most) {
        child.timed_out = fmt::format(
            "had not ended after {:.0f} seconds, of which it computed {:.1f}, and {} are "
            "allowed (--time-limit)",
            most, processor_seconds(child), time_limit);
    } else {
        return;
    }
    kill(child.process, SIGKILL);
}

JobResult finish(Child &child) {
    close(child.pipe);
    const std::string words = last_words(child);
    close(child.said);
    int status = 0;
    while (waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
    }
    if (!child.timed_out.empty()) {
        return {false, child.timed_out};
    }
    if (WIFSIGNALED(status)) {
        return {
            false,
            fmt::format("the compiler ended by signal {} ({}){}", WTERMSIG(status), strsignal(WTERMSIG(status)), words),
            WTERMSIG(status) == SIGABRT};
    }
    if (child.text.empty()) {
        return {false, fmt::format("the compiler exited with status {}{}", WEXITSTATUS(status), words)};
    }
    return {child.text[0] == '+', child.text.substr(1)};
}

// Reads what has come; false once the child has closed its end.
bool read_some(Child &child) {
    char buffer[65536];
    const ssize_t got = read(child.pipe, buffer, sizeof buffer);
    if (got > 0) {
        child.text.append(buffer, got);
    }
    return got > 0 || (got < 0 && errno == EINTR);
}

}  // namespace

void run_jobs(const std::vector<Job> &jobs, int at_once, double time_limit,
              const std::function<void(size_t index, const JobResult &result)> &on_done) {
    std::vector<Child> running;
    size_t next = 0;
    while (next < jobs.size() || !running.empty()) {
        while (next < jobs.size() && running.size() < static_cast<size_t>(std::max(at_once, 1))) {
            std::optional<Child> child = start(next, jobs[next]);
            if (!child && !running.empty()) {
                break;  // once one of those has ended
            }
            if (!child) {
                throw Error(fmt::format("no child process: {}", std::strerror(errno)), StatusCode::failed);
            }
            running.push_back(std::move(*child));
            next++;
        }
        std::vector<pollfd> polls;
        for (const Child &child : running) {
            polls.push_back({child.pipe, POLLIN, 0});
        }
        poll(polls.data(), polls.size(), 100);
        std::vector<Child> still;
        for (size_t i = 0; i < running.size(); i++) {
            Child &child = running[i];
            end_late(child, time_limit);
            if (polls[i].revents == 0 || read_some(child)) {
                still.push_back(std::move(child));
            } else {
                JobResult result = finish(child);
                result.seconds = elapsed_seconds(child);
                on_done(child.index, result);
            }
        }
        running = std::move(still);
    }
}

}  // namespace kiln::tools
