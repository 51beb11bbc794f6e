#include "library/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "fmt/format.h"
#include "system/error.h"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;

// Holds a folder for one writer at a time, where its file system can. Another kiln waits, but not for ever: whoever
// started kiln may hold the folder for as long as that runs.
class FolderLock {
  public:
    explicit FolderLock(const std::string &folder) : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        constexpr int tries = 200;
        for (int i = 0; i < tries && folder_ >= 0 && flock(folder_, LOCK_EX | LOCK_NB) != 0; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
    }
    ~FolderLock() {
        if (folder_ >= 0) {
            close(folder_);
        }
    }
    FolderLock(const FolderLock &) = delete;
    FolderLock &operator=(const FolderLock &) = delete;

  private:
    int folder_;
};

std::string part_of(const OutputFile &file) {
    return file.path + ".part";
}

[[noreturn]] void refuse(const std::string &path, const std::string &why) {
    throw Error(fmt::format("{} cannot be written: {}", path, why), StatusCode::failed);
}

}  // namespace

void make_output_folder(const std::string &folder) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (!error && access(folder.c_str(), W_OK | X_OK) != 0) {
        error = {errno, std::generic_category()};
    }
    if (error) {
        throw Error(fmt::format("{} cannot be written: {}", folder, error.message()), StatusCode::failed);
    }
}

void write_files(const std::string &folder, const std::vector<OutputFile> &files) try {
    const FolderLock lock(folder);
    for (const OutputFile &output : files) {
        errno = 0;
        std::ofstream file(part_of(output), std::ios::binary);
        file.write(output.bytes.data(), static_cast<std::streamsize>(output.bytes.size()));
        file.close();
        if (!file) {
            refuse(output.path, std::strerror(errno));
        }
    }
    for (const OutputFile &output : files) {
        std::error_code error;
        fs::rename(part_of(output), output.path, error);
        if (error) {
            refuse(output.path, error.message());
        }
    }
} catch (const Error &) {
    for (const OutputFile &output : files) {
        std::error_code ignored;
        fs::remove(part_of(output), ignored);
    }
    throw;
}

}  // namespace kiln::tools
