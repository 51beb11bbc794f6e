// A folder for a command's temporary files, gone when the command is: at its end, by an exception, or by Ctrl-C. What a
// kill leaves behind goes a day later, when another command comes by.
#pragma once

#include <string>

namespace kiln::tools {

// Made under $TMPDIR, else /tmp. Throws Error where that cannot be.
class TempFolder {
  public:
    TempFolder();
    ~TempFolder();
    TempFolder(const TempFolder &) = delete;
    TempFolder &operator=(const TempFolder &) = delete;

    const std::string &path() const { return path_; }

  private:
    std::string path_;
    int slot_ = -1;  // in the list the signal handler reads
    int lock_ = -1;  // held while the folder is in use
};

// From here on, SIGINT, SIGTERM and SIGHUP remove every TempFolder before they end the program, which then still dies
// by that signal, as a shell expects.
void clean_up_on_signals();

}  // namespace kiln::tools
