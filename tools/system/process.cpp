#include "system/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "fmt/format.h"
#include "system/error.h"

extern char **environ;

namespace kiln::tools {
namespace {

// A running program, and the end of the pipe its output comes through (-1 for none).
struct Child {
    pid_t id;
    int output;
};

// Which of the child's streams go into the pipe.
enum class Piped { nothing, out, out_and_error };

Child start(const std::vector<std::string> &command, Piped piped) {
    int pipe_ends[2] = {-1, -1};
    if (piped != Piped::nothing && pipe2(pipe_ends, O_CLOEXEC) != 0)
        throw Error(fmt::format("no pipe: {}", std::strerror(errno)), StatusCode::failed);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (piped != Piped::nothing) posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    if (piped == Piped::out_and_error) posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
    std::vector<char *> arguments;
    for (const std::string &argument : command) arguments.push_back(const_cast<char *>(argument.c_str()));
    arguments.push_back(nullptr);

    Child child = {0, pipe_ends[0]};
    const int error = posix_spawnp(&child.id, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (piped != Piped::nothing) close(pipe_ends[1]);
    if (error != 0) {
        if (piped != Piped::nothing) close(pipe_ends[0]);
        // What was built for another processor.
        const char *hint = error == ENOEXEC ? ": --runner names an emulator that runs it, such as qemu-aarch64" : "";
        throw Error(fmt::format("{} cannot be started: {}{}", command[0], std::strerror(error), hint),
                    StatusCode::failed);
    }
    return child;
}

// Cuts what comes into lines.
class Lines {
  public:
    explicit Lines(const std::function<void(const std::string &)> &on_line) : on_line_(on_line) {}

    void add(std::string_view text) {
        pending_ += text;
        size_t begin = 0;
        for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1)
            on_line_(pending_.substr(begin, end - begin));
        pending_.erase(0, begin);
    }
    void end() {
        if (!pending_.empty()) on_line_(pending_);
        pending_.clear();
    }

  private:
    const std::function<void(const std::string &)> &on_line_;
    std::string pending_;
};

// Hands all that comes through the pipe to `take`, then waits for the child's end.
int finish(const Child &child, const std::function<void(std::string_view)> &take) {
    std::array<char, 65536> buffer;
    while (child.output >= 0) {
        const ssize_t bytes = read(child.output, buffer.data(), buffer.size());
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes <= 0) break;
        take({buffer.data(), static_cast<size_t>(bytes)});
    }
    if (child.output >= 0) close(child.output);
    int status = 0;
    while (waitpid(child.id, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int run_process(const std::vector<std::string> &command) {
    return finish(start(command, Piped::nothing), {});
}

int run_process(const std::vector<std::string> &command, const std::function<void(const std::string &)> &on_line) {
    Lines lines(on_line);
    const int status = finish(start(command, Piped::out), [&](std::string_view text) { lines.add(text); });
    lines.end();
    return status;
}

std::optional<int> run_process(const std::vector<std::string> &command, double silence,
                               const std::function<void(const std::string &)> &on_line) {
    Lines lines(on_line);
    const Child child = start(command, Piped::out);
    pollfd output = {child.output, POLLIN, 0};
    std::array<char, 65536> buffer;
    bool silent = false;
    while (true) {
        const int ready = poll(&output, 1, static_cast<int>(silence * 1000));
        if (ready < 0 && errno == EINTR) continue;
        silent = ready == 0;
        const ssize_t bytes = silent ? 0 : read(child.output, buffer.data(), buffer.size());
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes <= 0) break;
        lines.add({buffer.data(), static_cast<size_t>(bytes)});
    }
    if (silent) kill(child.id, SIGKILL);
    lines.end();
    close(child.output);
    const int status = finish({child.id, -1}, {});
    return silent ? std::nullopt : std::optional(status);
}

ProcessResult capture_process(const std::vector<std::string> &command) {
    ProcessResult result;
    result.status = finish(start(command, Piped::out_and_error), [&](std::string_view text) { result.output += text; });
    return result;
}

std::vector<std::string> split_words(const std::string &text) {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

}  // namespace kiln::tools
