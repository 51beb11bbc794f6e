// Temporary folders, and the signal handler that removes them.
#include "system/temp_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "fmt/format.h"
#include "system/error.h"

namespace kiln::tools {
namespace {

constexpr std::string_view prefix = "kiln-";  // of folders' names, before six letters of mkdtemp's

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

// Opens the file of a folder that says whether it is in use, and locks it; -1 where that cannot be, where it is not
// this user's, or where another process has it.
int lock(const std::string &folder, int flags) {
    const int file = open((folder + "/.lock").c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
    struct stat status = {};
    if (file >= 0 && fstat(file, &status) == 0 && status.st_uid == geteuid() && flock(file, LOCK_EX | LOCK_NB) == 0)
        return file;
    if (file >= 0) close(file);
    return -1;
}

// Removes a folder, what says whether it is in use last: what a kill leaves of it meanwhile is known for what it is.
void remove_whole(const std::filesystem::path &folder) {
    namespace fs = std::filesystem;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        std::error_code left;
        if (entry->path().filename() != ".lock") fs::remove_all(entry->path(), left);
    }
    fs::remove_all(folder, error);
}

// Removes the folders of commands that were killed, and empty ones, which a kill may leave of those. One is left alone
// for a day, since a command makes its folder before it can lock it.
void remove_abandoned(const std::string &parent) {
    namespace fs = std::filesystem;
    std::error_code error;
    for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        std::error_code missing;
        if (!name.starts_with(prefix) || name.size() != prefix.size() + 6) continue;
        if (entry->last_write_time(missing) > fs::file_time_type::clock::now() - std::chrono::hours(24) || missing)
            continue;
        const int file = lock(entry->path().string(), 0);
        if (file < 0) {
            rmdir(entry->path().c_str());
            continue;
        }
        remove_whole(entry->path());
        close(file);
    }
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
    const char *variable = std::getenv("TMPDIR");
    const std::string parent = variable && *variable ? variable : "/tmp";
    remove_abandoned(parent);
    std::string path = parent + "/" + std::string(prefix) + "XXXXXX";
    if (!mkdtemp(path.data()))
        throw Error(fmt::format("{} cannot be made: {} (TMPDIR names another place)", path, std::strerror(errno)),
                    StatusCode::failed);
    path_ = path;
    lock_ = lock(path_, O_CREAT);
    slot_ = remember(path_);
}

TempFolder::~TempFolder() {
    remove_whole(path_);
    if (lock_ >= 0) close(lock_);
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
