// Temporary folders, and the signal handler that removes them.
#include "temp_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "fmt/format.h"
#include "spec.h"

namespace kiln::tools {
namespace {

// What a signal handler may read: no heap, no locks. An empty path is a free slot.
constexpr int slots = 16;
constexpr size_t path_bytes = 512;
char folders[slots][path_bytes];
std::mutex slots_mutex;

int remember(const std::string &path) {
    const std::lock_guard lock(slots_mutex);
    for (int slot = 0; slot < slots; ++slot)
        if (!folders[slot][0] && path.size() < path_bytes) {
            // The first letter last: a handler that comes in between sees a free slot.
            std::memcpy(folders[slot] + 1, path.c_str() + 1, path.size());
            folders[slot][0] = path[0];
            return slot;
        }
    return -1;  // not removed on a signal
}

void remove_folder(const char *path) {
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/rm", "rm", "-rf", path, static_cast<char *>(nullptr));
        _exit(127);
    }
    if (child > 0) waitpid(child, nullptr, 0);
}

// Everything called here is async-signal-safe.
void on_signal(int signal) {
    if (isatty(STDERR_FILENO)) {
        [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, "\n", 1);  // ends a progress bar's line
    }
    for (const auto &folder : folders)
        if (folder[0]) remove_folder(folder);
    raise(signal);  // SA_RESETHAND: the default this time
}

}  // namespace

TempFolder::TempFolder() {
    const char *parent = std::getenv("TMPDIR");
    std::string path = std::string(parent && *parent ? parent : "/tmp") + "/kiln-XXXXXX";
    if (!mkdtemp(path.data())) throw Error(fmt::format("{} cannot be made: {}", path, std::strerror(errno)));
    path_ = path;
    slot_ = remember(path_);
}

TempFolder::~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    const std::lock_guard lock(slots_mutex);
    if (slot_ >= 0) folders[slot_][0] = 0;
}

void clean_up_on_signals() {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESETHAND;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        struct sigaction current = {};
        sigaction(signal, nullptr, &current);
        if (current.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup stays nohup
    }
}

}  // namespace kiln::tools
