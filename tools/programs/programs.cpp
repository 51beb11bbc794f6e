#include "programs/programs.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <numeric>
#include <regex>
#include <thread>

#include "fmt/format.h"
#include "layers/spec.h"
#include "library/library_files.h"
#include "system/process.h"
#include "system/progress.h"
#include "system/share_folder.h"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;

std::string default_compiler(const TargetModel &target) {
    if (const char *cxx = std::getenv("CXX"); cxx && *cxx) return cxx;
    if (is_own_architecture(target)) return "c++";
    if (target.cross.compiler != nullptr) return target.cross.compiler;
    throw Error(fmt::format("no C++ compiler is known for {}: name one with --cxx", target.architecture));
}

// The folder that holds runtime/, tests/reference/ and tools/harness/.
fs::path source_folder() {
    std::error_code error;
    const fs::path folder = share_folder();
    if (fs::exists(folder / "tools/harness/main.cpp", error)) return folder;
    throw Error(fmt::format("the sources of Kiln's programs are missing: there is no {}", folder.string()),
                StatusCode::failed);
}

// The files with one of these endings in the parts of the sources that programs are made of, sorted.
std::vector<fs::path> source_files(const fs::path &root, std::initializer_list<std::string_view> endings) {
    std::vector<fs::path> files;
    for (const char *part : {"runtime", "tests/reference", "tools/harness", "tools/network_program"})
        for (const auto &entry : fs::recursive_directory_iterator(root / part))
            if (std::find(endings.begin(), endings.end(), entry.path().extension().string()) != endings.end())
                files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

std::string read_text(const fs::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> compile_flags(const fs::path &root) {
    std::vector<std::string> flags = {"-std=c++17", "-g0", "-ffunction-sections", "-fdata-sections", "-pthread"};
    for (const char *folder : {"runtime/include", "runtime", "tests", "tools"})
        flags.push_back("-I" + (root / folder).string());
    return flags;
}

// The end of what a compiler said: its last 20 lines.
std::string tail(const std::string &text) {
    size_t begin = text.size();
    for (int lines = 0; begin > 0; --begin)
        if (text[begin - 1] == '\n' && begin != text.size() && ++lines == 20) break;
    return text.substr(begin);
}

ProcessResult start_compiler(const std::vector<std::string> &command) {
    try {
        return capture_process(command);
    } catch (const Error &error) {
        throw Error(fmt::format("the C++ compiler {}; name one with --cxx or CXX", error.what()), error.code);
    }
}

void compile(const std::vector<std::string> &command) {
    const ProcessResult result = start_compiler(command);
    if (result.status != 0)
        throw Error(fmt::format("the C++ compiler {} failed (exit status {}):\n{}", command[0], result.status,
                                tail(result.output)),
                    StatusCode::failed);
}

// Runs work(0), ..., work(count - 1) on `jobs` threads. Throws the first exception that one of them throws.
template <typename Work>
void in_parallel(int count, int jobs, const Work &work) {
    std::atomic<int> next = 0;
    std::exception_ptr failure;
    std::mutex mutex;
    std::vector<std::thread> team;
    for (int i = 0; i < std::min(jobs, count); ++i)
        team.emplace_back([&] {
            for (int at; (at = next++) < count;) try {
                    work(at);
                } catch (...) {
                    const std::lock_guard lock(mutex);
                    if (!failure) failure = std::current_exception();
                    next = count;
                }
        });
    for (std::thread &thread : team) thread.join();
    if (failure) std::rethrow_exception(failure);
}

// The reference is worth making fast, and what copies images' parts, as the runtime's CMakeLists.txt has it; kernels
// are compiled already.
const char *optimisation(const fs::path &source) {
    if (source.filename() == "image_parts.cpp") return "-O2";
    return source.parent_path().filename() == "reference" ? "-O3" : "-Os";
}

// Compiles everything but each main.cpp, which needs the library's header, into `folder`.
void compile_objects(const fs::path &root, const std::vector<std::string> &cxx, const fs::path &folder, int jobs) {
    std::vector<fs::path> sources = source_files(root, {".cpp"});
    std::erase_if(sources, [](const fs::path &source) { return source.filename() == "main.cpp"; });
    in_parallel(static_cast<int>(sources.size()), jobs, [&](int i) {
        std::vector<std::string> command = cxx;
        for (const std::string &flag : compile_flags(root)) command.push_back(flag);
        const std::string object = (folder / fmt::format("{}.o", i)).string();
        command.insert(command.end(), {optimisation(sources[i]), "-c", sources[i].string(), "-o", object});
        compile(command);
    });
}

// What a compiler tells that it would do with a source: its version, and every option, those that a script around it
// adds too. By which name it is called is none of that, nor where.
std::string compiler_text(const std::vector<std::string> &cxx) {
    std::vector<std::string> command = cxx;
    for (const std::string &flag : compile_flags({})) command.push_back(flag);
    command.insert(command.end(), {"-###", "-S", "-x", "c++", "/dev/null", "-o", "/dev/null"});
    const ProcessResult told = start_compiler(command);
    if (told.status == 0)
        return std::regex_replace(told.output, std::regex("COLLECT_GCC=[^\n]*|compilation-dir=[^\"]*"), "");
    // Not every compiler knows the option.
    command = cxx;
    command.emplace_back("--version");
    return cxx[0] + start_compiler(command).output;
}

// FNV-1a of all that the objects depend on. Where the sources lie is none of that: installations share them.
std::string object_key(const fs::path &root, const std::vector<std::string> &cxx) {
    uint64_t hash = 0xcbf29ce484222325;
    const auto add = [&](std::string_view text) {
        for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
        hash = (hash ^ 0xff) * 0x100000001b3;  // no text holds this byte: where one ends matters
    };
    for (size_t i = 1; i < cxx.size(); ++i) add(cxx[i]);
    add(compiler_text(cxx));
    for (const std::string &flag : compile_flags({})) add(flag);
    for (const fs::path &file : source_files(root, {".cpp", ".h"})) {
        add(file.lexically_relative(root).string());
        add(optimisation(file));
        add(read_text(file));
    }
    return fmt::format("{:016x}", hash);
}

// Where objects are kept between commands; empty where the user has no home.
fs::path cache_folder() {
    if (const char *cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return fs::path(cache) / "kiln";
    if (const char *home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache/kiln";
    return {};
}

// Removes objects that were not used for a week: each change of Kiln's sources or of the compiler leaves some behind.
void prune(const fs::path &cache) {
    std::error_code error;
    const auto limit = fs::file_time_type::clock::now() - std::chrono::hours(7 * 24);
    for (const auto &entry : fs::directory_iterator(cache, error))
        if (entry.path().filename().string().starts_with("harness-") && entry.last_write_time(error) < limit)
            fs::remove_all(entry.path(), error);
}

// A folder of a program's objects. They are made in a folder of this process's own that is then renamed, so that
// several commands at once do not disturb each other; where nothing can be kept, they are made in `folder`.
fs::path objects(const fs::path &root, const std::vector<std::string> &cxx, const fs::path &folder, int jobs) {
    std::error_code error;
    const fs::path cache = cache_folder();
    const fs::path kept = cache / ("harness-" + object_key(root, cxx));
    if (!cache.empty() && fs::exists(kept, error)) {
        fs::last_write_time(kept, fs::file_time_type::clock::now(), error);
        return kept;
    }
    prune(cache);
    fs::path fresh = fmt::format("{}.{}", kept.string(), getpid());
    if (cache.empty() || (fs::create_directories(fresh, error), error))
        fs::create_directories(fresh = folder / "objects");
    try {
        compile_objects(root, cxx, fresh, jobs);
    } catch (...) {
        fs::remove_all(fresh, error);
        if (fresh.parent_path() != cache) throw;
        fs::create_directories(fresh = folder / "objects");  // the cache may have no room
        compile_objects(root, cxx, fresh, jobs);
    }
    if (fresh.parent_path() != cache) return fresh;
    fs::rename(fresh, kept, error);
    if (error) fs::remove_all(fresh, error);  // another command was faster
    return kept;
}

std::vector<std::string> link_command(const ProgramParts &parts, const Toolchain &toolchain, const fs::path &objects,
                                      const std::string &executable) {
    const fs::path root = toolchain.sources;
    std::vector<std::string> command = toolchain.cxx;
    for (const std::string &flag : compile_flags(root)) command.push_back(flag);
    command.push_back(fmt::format("-DKILN_LIBRARY_HEADER=\"{}\"", fs::absolute(parts.header).string()));
    for (const std::string &define : parts.defines) command.push_back("-D" + define);
    command.insert(command.end(), {"-Os", (root / parts.main).string()});
    for (const auto &entry : fs::directory_iterator(objects)) command.push_back(entry.path().string());
    if (!parts.archive.empty()) command.push_back(parts.archive);
    command.insert(command.end(), {"-Wl,--gc-sections", "-o", executable});
    // A runner may know no folder of the target's shared libraries.
    if (!toolchain.runner.empty() && !parts.loads_driver) command.push_back("-static");
    return command;
}

// Builds a library's harness, with as many of its layers as can be. The archive stays as it is: a program that does not
// name a layer's kernels takes nothing of them from it.
class ProgramBuilder {
  public:
    ProgramBuilder(const CompiledLibrary &library, const Toolchain &toolchain, const std::string &folder,
                   const fs::path &objects)
        : library_(library),
          toolchain_(toolchain),
          objects_(objects),
          header_(folder + "/" + library.name + "_linked.h"),
          executable_(folder + "/" + library.name + "_harness") {}

    BuiltProgram build() {
        std::vector<size_t> all(library_.contents.layers.size());
        std::iota(all.begin(), all.end(), 0);
        add(all);
        const std::string message = in_program_.empty() || is_built_ ? "" : try_with({});
        if (!message.empty()) throw Error(message, StatusCode::failed);
        std::sort(result_.failures.begin(), result_.failures.end(),
                  [&](const auto &a, const auto &b) { return place_of(a.layer) < place_of(b.layer); });
        if (!in_program_.empty()) result_.program = Program{executable_, toolchain_.runner};
        return result_;
    }

  private:
    // Takes these layers into the program, or those of them with which it can be built.
    void add(const std::vector<size_t> &layers) {
        if (layers.empty()) return;
        const std::string message = try_with(layers);
        if (message.empty()) {
            in_program_.insert(in_program_.end(), layers.begin(), layers.end());
            return;
        }
        check_toolchain();
        if (layers.size() == 1) {
            result_.failures.push_back({library_.contents.layers[layers[0]].name, StatusCode::failed,
                                        "no program can be built with it: " + message});
            return;
        }
        // What the compiler names is most likely what it fails at.
        std::vector<size_t> others = layers, named;
        const auto first = std::stable_partition(others.begin(), others.end(),
                                                 [&](size_t layer) { return !names_layer(message, layer); });
        const auto middle =
            first == others.begin() || first == others.end() ? others.begin() + others.size() / 2 : first;
        named.assign(middle, others.end());
        others.erase(middle, others.end());
        add(named);
        add(others);
    }

    // Throws Error where no program can be built at all.
    void check_toolchain() {
        if (is_checked_) return;
        compile(command({}));
        is_checked_ = true;
    }

    // Builds the program with these layers beside those that it has; what went wrong, or "".
    std::string try_with(const std::vector<size_t> &layers) {
        std::vector<size_t> together = in_program_;
        together.insert(together.end(), layers.begin(), layers.end());
        std::sort(together.begin(), together.end());
        is_built_ = false;
        try {
            compile(command(together));
        } catch (const Error &error) {
            return error.what();
        }
        is_built_ = true;
        return "";
    }

    // The compiler's command for a program of these layers.
    std::vector<std::string> command(const std::vector<size_t> &layers) const {
        std::ofstream(header_) << header_text(with_layers(library_.contents, layers));
        ProgramParts parts = {"tools/harness/main.cpp",
                              header_,
                              library_.archive,
                              {fmt::format("KILN_LIBRARY={}_library", library_.name)}};
        if (library_.on_gpu) parts.defines.emplace_back("KILN_HARNESS_GPU");
        parts.loads_driver = library_.on_gpu;
        return link_command(parts, toolchain_, objects_, executable_);
    }

    // Whether a message holds one of the symbols of a layer's kernels.
    bool names_layer(const std::string &message, size_t layer) const {
        const auto &kernels = library_.contents.layers[layer].kernels;
        return std::any_of(kernels.begin(), kernels.end(),
                           [&](const auto &kernel) { return message.find(kernel->symbol) != std::string::npos; });
    }

    size_t place_of(const std::string &layer) const {
        const auto &layers = library_.contents.layers;
        return std::find_if(layers.begin(), layers.end(), [&](const auto &other) { return other.name == layer; }) -
               layers.begin();
    }

    const CompiledLibrary &library_;
    const Toolchain &toolchain_;
    const fs::path objects_;
    const std::string header_, executable_;
    std::vector<size_t> in_program_;  // layers, by their places in the library
    bool is_built_ = false;           // whether the executable is there, and is of those layers
    bool is_checked_ = false;         // whether the compiler is known to build what has no layer
    BuiltProgram result_;
};

}  // namespace

Toolchain find_toolchain(const std::string &cxx, const std::string &runner, const TargetModel &target) {
    return {split_words(cxx.empty() ? default_compiler(target) : cxx), split_words(runner), source_folder()};
}

CompiledLibrary compile_kernels(const ProgramOptions &options, const std::string &name,
                                const std::vector<LayerSpec> &layers, const std::string &folder) {
    LibraryRequest request;
    request.name = name;
    request.layers = layers;
    request.targets = {options.target_or_host()};
    request.folder = folder;
    request.decisions = options.decisions;
    request.jobs = options.jobs;
    request.fallbacks = options.fallbacks;
    request.layer_functions = false;
    Progress progress("compiling", static_cast<int>(layers.size()));
    CompiledLibrary library = compile_library(request, progress);
    for (const std::string &warning : library.warnings) progress.note("kiln: warning: " + warning);
    return library;
}

std::vector<std::string> Program::command(const std::vector<std::string> &arguments) const {
    std::vector<std::string> command = runner;
    command.push_back(executable);
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
}

BuiltProgram build_program(const CompiledLibrary &library, const Toolchain &toolchain, const std::string &folder,
                           int jobs) {
    return ProgramBuilder(library, toolchain, folder, objects(toolchain.sources, toolchain.cxx, folder, jobs)).build();
}

Program build_program(const ProgramParts &parts, const Toolchain &toolchain, const std::string &folder, int jobs) {
    const Program program = {folder + "/program", toolchain.runner};
    compile(
        link_command(parts, toolchain, objects(toolchain.sources, toolchain.cxx, folder, jobs), program.executable));
    return program;
}

}  // namespace kiln::tools
