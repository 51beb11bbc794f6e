#include "tune/pools/cluster_pool.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"
#include "layers/onnx_model.h"
#include "layers/spec.h"
#include "system/share_folder.h"

extern char **environ;

namespace kiln::tools {

using nlohmann::json;

ClusterPool::ClusterPool(const TuneOptions &options, const TargetModel &target) {
    signal(SIGPIPE, SIG_IGN);  // a driver that is gone is told by what it says last
    std::error_code ignored;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", ignored);
    setenv("KILN", self.c_str(), 0);  // what machines without a kiln of their own may find
    start({find_python(), (share_folder() / "cluster/driver.py").string()});
    say({{"address", options.cluster},
         {"boards", options.boards},
         {"target", target.name},
         {"runner", options.runner},
         {"cxx", options.cxx},
         {"seed", options.seed},
         {"cold", options.cold},
         {"time_limit", options.time_limit},
         {"wait", options.cluster_wait},
         {"kiln", KILN_VERSION},
         {"halide", halide_version()}});
    for (json said = hear();; said = hear()) {
        if (said.contains("state")) {
            take_state(said["state"]);
        }
        if (backlog_.timers() > 0 && backlog_.compilers() > 0) {
            break;
        }
    }
}

// The driver reads the end of its input as the end of the work; what it does not end by itself is ended.
ClusterPool::~ClusterPool() {
    finish();
    close(driver_.output);
    for (int tries = 0; tries < 200; tries++) {
        if (waitpid(driver_.process, nullptr, WNOHANG) != 0) {
            return;
        }
        usleep(50000);
    }
    kill(driver_.process, SIGKILL);
    waitpid(driver_.process, nullptr, 0);
}

void ClusterPool::start(const std::vector<std::string> &command) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) {
        throw Error(fmt::format("no pipe: {}", std::strerror(errno)), StatusCode::failed);
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    posix_spawnattr_t attributes;  // Ctrl-C is for this process, which then closes the driver's input
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    std::vector<char *> arguments;
    for (const std::string &argument : command) {
        arguments.push_back(const_cast<char *>(argument.c_str()));
    }
    arguments.push_back(nullptr);
    const int error = posix_spawnp(&driver_.process, arguments[0], &actions, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(to[0]);
    close(from[1]);
    driver_.input = to[1];
    driver_.output = from[0];
    if (error != 0) {
        close(to[1]);
        close(from[0]);
        throw Error(fmt::format("{} cannot be started: {}", command[0], std::strerror(error)), StatusCode::failed);
    }
}

void ClusterPool::say(const json &line) {
    const std::string text = line.dump() + "\n";
    for (size_t at = 0; at < text.size();) {
        const ssize_t written = write(driver_.input, text.data() + at, text.size() - at);
        if (written < 0 && errno != EINTR) {
            return;  // hear() says why
        }
        at += std::max<ssize_t>(written, 0);
    }
}

void ClusterPool::fail_for_good() {
    int status = 0;
    waitpid(driver_.process, &status, 0);
    throw Error(fmt::format("the cluster's driver {}; what was recorded before is whole: go on with --resume",
                            WIFSIGNALED(status) ? fmt::format("was ended by signal {}", WTERMSIG(status))
                                                : fmt::format("exited with status {}", WEXITSTATUS(status))),
                StatusCode::failed);
}

json ClusterPool::hear() {
    size_t end;
    while ((end = pending_.find('\n')) == std::string::npos) {
        char buffer[65536];
        const ssize_t got = read(driver_.output, buffer, sizeof buffer);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            fail_for_good();
        }
        pending_.append(buffer, std::max<ssize_t>(got, 0));
    }
    const std::string line = pending_.substr(0, end);
    pending_.erase(0, end + 1);
    const json said = json::parse(line, nullptr, false);
    if (said.is_object() && said.contains("fatal")) {
        throw Error(said["fatal"].get<std::string>(), StatusCode::failed);
    }
    return said.is_object() ? said : json::object();
}

void ClusterPool::compile(Task task, const Problem &problem, const Decision &decision) {
    compiling_[task] = decision;
    backlog_.compile(1);
    say({{"do", "compile"},
         {"task", task},
         {"problem", std::string_view(print(problem))},
         {"algorithm", decision.algorithm},
         {"schedule", decision.schedule}});
}

void ClusterPool::time(Task task, const Problem &problem, const std::vector<CompiledCandidate> &kernels,
                       const TimingRun &run, const std::string &processor) {
    json candidates = json::array();
    for (const CompiledCandidate &kernel : kernels) {
        candidates.push_back(std::stoul(kernel.object));  // the task that compiled it
    }
    backlog_.time(1);
    say({{"do", "time"},
         {"task", task},
         {"problem", std::string_view(print(problem))},
         {"candidates", candidates},
         {"processor", processor},
         {"run",
          {{"references", run.references},
           {"from", run.from},
           {"rounds", run.rounds},
           {"seconds", run.seconds},
           {"thorough", run.thorough},
           {"sizes", run.sizes}}}});
}

void ClusterPool::release(const CompiledCandidate &candidate) {
    if (!candidate.object.empty()) {
        say({{"do", "release"}, {"candidate", std::stoul(candidate.object)}});
    }
}

void ClusterPool::take_state(const json &state) {
    backlog_.set_machines(state.at("timers"), state.at("compilers"));
    state_ = state;
}

void ClusterPool::handle(const json &said, Listener &listener) {
    if (said.contains("state")) {
        take_state(said["state"]);
    } else if (said.contains("note")) {
        listener.note(said["note"]);
    } else if (said.contains("compiled")) {
        const Task task = said["compiled"];
        CompiledCandidate candidate;
        candidate.decision = compiling_.at(task);
        compiling_.erase(task);
        backlog_.compile(-1);
        candidate.error = said.value("error", "");
        candidate.seconds = said.value("seconds", 0.0);
        candidate.object = candidate.error.empty() ? std::to_string(task) : "";
        listener.compiled(task, candidate);
    } else if (said.contains("timed")) {
        Timing timing = {said.at("verdict"), said.at("seconds"), said.at("beside"), said.at("took")};
        for (const json &size : said.at("sizes")) {
            timing.sizes.push_back({size.at(0), size.at(1)});
        }
        const Machine machine = {said.at("processor"), said.at("host"), said.at("calibration"), said.at("load")};
        listener.timed(said["timed"], said.at("kernel"), timing, machine);
    } else if (said.contains("ended")) {
        backlog_.time(-1);
        listener.ended(said["ended"], said.at("error"));
    }
}

void ClusterPool::wait(Listener &listener) {
    do {
        handle(hear(), listener);
    } while (pending_.find('\n') != std::string::npos);  // what came with it
}

double ClusterPool::now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

std::vector<std::string> ClusterPool::processors() const {
    std::vector<std::string> result;
    for (const auto &machine : state_.value("machines", nlohmann::ordered_json::array())) {
        const std::string processor = machine.at("machine");
        if (!processor.empty() && std::count(result.begin(), result.end(), processor) == 0) {
            result.push_back(processor);
        }
    }
    return result;
}

nlohmann::ordered_json ClusterPool::describe() const {
    return state_;
}

// Waits for the driver's last word on its machines.
void ClusterPool::finish() {
    if (driver_.input < 0) {
        return;
    }
    close(std::exchange(driver_.input, -1));
    try {
        while (true) {
            const json said = hear();
            if (said.contains("state")) {
                take_state(said["state"]);
            }
            if (said.contains("bye")) {
                return;
            }
        }
    } catch (const Error &) {  // it ended without one
    }
}

}  // namespace kiln::tools
