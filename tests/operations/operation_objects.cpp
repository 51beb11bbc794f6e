// Compiles the operations that a file's lines name, each in a process of its own, and writes what became of each as a
// line of JSON: operation_objects TEXTS FOLDER [TARGET]
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "operation.h"

namespace {

nlohmann::json compile(const std::string &text, size_t index, const std::string &folder, const std::string &target) {
    const std::string symbol = "operation" + std::to_string(index);
    nlohmann::json result = {{"text", text}, {"symbol", symbol}};
    try {
        result["printed"] = kiln::operation_signature(text).text;
        const kiln::OperationFacts facts =
            kiln::generate_operation({text, &kiln::find_target(target), symbol}, folder + "/" + symbol + ".o");
        result["workspace"] = facts.workspace_bytes;
        result["worker_workspace"] = facts.worker_workspace_bytes;
        result["stack"] = facts.stack_bytes;
    } catch (const std::exception &error) {
        result["error"] = error.what();
    }
    return result;
}

}  // namespace

int main(int argc, char **argv) {
    const std::string folder = argv[2], target = argc > 3 ? argv[3] : "host";
    std::vector<std::string> texts;
    std::ifstream file(argv[1]);
    for (std::string line; std::getline(file, line);) {
        texts.push_back(line);
    }
    const size_t workers = std::max(1U, std::thread::hardware_concurrency());
    const auto facts_file = [&](size_t i) { return folder + "/operation" + std::to_string(i) + ".json"; };
    size_t running = 0;
    for (size_t i = 0; i < texts.size() || running > 0;) {
        if (i < texts.size() && running < workers) {
            if (fork() == 0) {
                std::ofstream(facts_file(i)) << compile(texts[i], i, folder, target);
                _exit(0);
            }
            running++;
            i++;
        } else {
            wait(nullptr);
            running--;
        }
    }
    for (size_t i = 0; i < texts.size(); i++) {
        std::string line;
        std::ifstream facts(facts_file(i));
        std::cout << (std::getline(facts, line)
                          ? line
                          : nlohmann::json{{"text", texts[i]}, {"error", "the process died"}}.dump())
                  << "\n";
    }
}
