#include "harness/machine/own_process.h"

#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kiln::harness {

std::string in_own_process(const std::function<void()> &work) {
    std::fflush(nullptr);  // else the child would write what waits to be written once more
    const pid_t child = fork();
    if (child <= 0) {
#ifdef __linux__
        if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with its parent, however that does
#endif
        work();
        if (child == 0) std::exit(0);
        return "";
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status))
        return "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
    return WEXITSTATUS(status) == 0 ? "" : "ended with status " + std::to_string(WEXITSTATUS(status));
}

}  // namespace kiln::harness
