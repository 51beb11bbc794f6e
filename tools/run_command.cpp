// kiln run: the cases of a file, through one library made of all of them.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "cases.h"
#include "commands.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "generic.h"
#include "nlohmann/json.hpp"
#include "npy.h"
#include "output_folder.h"
#include "process.h"
#include "programs.h"
#include "progress.h"
#include "targets/target_model.h"
#include "temp_folder.h"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A case that resolved, and what becomes of it.
struct Job {
    size_t line;  // of the cases file, not counting blank ones
    const std::string &name;
    const Case &value;
    Resolution resolution;
    std::string output;  // relative to the output folder
    std::string layer;   // in the library
};

// Every case's answer: printed when it is known, kept for results.jsonl.
class Answers {
  public:
    explicit Answers(size_t count) : answers_(count) {}

    void give(size_t line, const json &answer) {
        answers_[line] = answer.dump(-1, ' ', false, json::error_handler_t::replace);
        failed_ = failed_ || answer.at("status") != "ok";
        fmt::print("{}\n", answers_[line]);
        std::fflush(stdout);
    }
    void fail(size_t line, const std::string &name, const std::string &code, const std::string &message) {
        give(line, {{"name", name}, {"status", "error"}, {"code", code}, {"message", message}});
    }
    bool given(size_t line) const { return !answers_[line].empty(); }
    bool any_failed() const { return failed_; }

    void write(const std::string &path) const {
        std::ofstream file(path);
        for (const std::string &answer : answers_) file << answer << '\n';
        if (!file.flush())
            throw Error(fmt::format("{} cannot be written: {}", path, std::strerror(errno)), StatusCode::failed);
    }

  private:
    std::vector<std::string> answers_;
    bool failed_ = false;
};

std::vector<int64_t> to_vector(const Axes &axes, int rank) {
    return {axes.begin(), axes.begin() + rank};
}

json to_answer(const Job &job, const std::string &kernel) {
    const Resolution &r = job.resolution;
    json answer = {{"name", job.name}, {"status", "ok"}, {"problem", print(r.problem).c_str()}, {"kernel", kernel}};
    answer["output_shape"] = std::vector<int64_t>(r.y.sizes, r.y.sizes + r.y.rank);
    answer["pads_begin"] = to_vector(r.pads_begin, r.problem.rank);
    answer["pads_end"] = to_vector(r.pads_end, r.problem.rank);
    answer["output"] = job.output;
    return answer;
}

// Copies a tensor of [batch][channel][point] or [batch][point][channel] from one of these orders to the other.
std::vector<std::byte> reorder(const std::byte *data, int64_t batch, int64_t channels, int64_t points, int64_t element,
                               Layout from, Layout to) {
    std::vector<std::byte> result(static_cast<size_t>(batch * channels * points * element));
    const auto offset = [&](Layout layout, int64_t n, int64_t c, int64_t point) {
        return (layout == Layout::ncx ? (n * channels + c) * points + point : (n * points + point) * channels + c) *
               element;
    };
    for (int64_t n = 0; n < batch; ++n)
        for (int64_t c = 0; c < channels; ++c)
            for (int64_t point = 0; point < points; ++point)
                std::memcpy(&result[offset(to, n, c, point)], data + offset(from, n, c, point), element);
    return result;
}

// Moves weights from the document's order to the order the layer says they lie in, for both of which the strides of
// kiln_pack_function are given.
std::vector<std::byte> reorder_weights(const Problem &p, const std::byte *data, const int64_t *from,
                                       const int64_t *to) {
    const int64_t element = size_of(p.w_type);
    std::vector<int64_t> sizes = {p.out_channels, p.in_channels / p.groups};
    if (p.op == Operator::conv_transpose) sizes = {p.in_channels, p.out_channels / p.groups};
    sizes.insert(sizes.end(), p.kernel.begin(), p.kernel.begin() + p.rank);
    std::vector<std::byte> result(static_cast<size_t>(p.w_elements() * element));
    for (int64_t index = 0; index < p.w_elements(); ++index) {
        int64_t rest = index, source = 0, target = 0;
        for (size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis]) {
            source += rest % sizes[axis] * from[axis];
            target += rest % sizes[axis] * to[axis];
        }
        std::memcpy(&result[target * element], data + source * element, element);
    }
    return result;
}

void write_raw(const std::string &path, const std::vector<std::byte> &data) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char *>(data.data()), static_cast<std::streamsize>(data.size()));
    if (!file.flush())
        throw Error(fmt::format("{} cannot be written: {}", path, std::strerror(errno)), StatusCode::failed);
}

template <class Number>
std::vector<std::byte> raw(const std::vector<Number> &numbers) {
    const auto *begin = reinterpret_cast<const std::byte *>(numbers.data());
    return {begin, begin + numbers.size() * sizeof(Number)};
}

// Turns a case's .npy files into raw ones, in the layouts its problem names, and back.
class Tensors {
  public:
    Tensors(const Job &job, const std::string &folder) : job_(job), p_(job.resolution.problem), folder_(folder) {}

    // The request of the harness (harness.h): the problem, and its files.
    std::string request() const {
        const Case &c = job_.value;
        const int64_t sampled = p_.op == Operator::deform_conv ? p_.offset_groups * p_.taps() : 0;
        write("x", reordered(c.x, p_.x_type, p_.in_channels, p_.in_points(), p_.x_layout));
        write("w", weights());
        if (p_.bias) write("bias", read_npy(c.bias).data);
        if (p_.residual)
            write("residual", reordered(c.residual, p_.y_type, p_.out_channels, p_.out_points(), p_.y_layout));
        if (sampled > 0)
            write("offset", reordered(c.offset, p_.x_type, sampled * p_.rank, p_.out_points(), p_.x_layout));
        if (p_.mask) write("mask", reordered(c.mask, p_.x_type, sampled, p_.out_points(), p_.x_layout));
        const std::vector<float> scale = c.layer.output_scale(p_);
        const std::vector<int32_t> zero_points = c.layer.weight_zero_points(p_);
        if (p_.has_scale() && scale.empty())
            throw Error(fmt::format("activation_params is missing: {} takes a slope for each of {} output channels",
                                    c.layer.activation, p_.out_channels));
        if (!scale.empty()) write("scale", raw(scale));
        if (!zero_points.empty()) write("zero_points", raw(zero_points));

        const int64_t *strides = job_.resolution.weight_strides;
        std::string line =
            fmt::format("{}\t{}\t{}", job_.line, print(p_).c_str(), fmt::join(strides, strides + p_.rank + 2, ","));
        for (const char *tensor : inputs) line += "\t" + (written_.count(tensor) != 0 ? path(tensor) : "-");
        return line + "\t" + path("y") + "\n";
    }

    // Turns y into the case's output. `output` is a path.
    void finish(const std::string &output) const {
        std::vector<std::byte> y(static_cast<size_t>(p_.y_elements() * size_of(p_.y_type)));
        std::ifstream file(path("y"), std::ios::binary);
        if (!file.read(reinterpret_cast<char *>(y.data()), static_cast<std::streamsize>(y.size())))
            throw Error(path("y") + " cannot be read", StatusCode::failed);
        y = reorder(y.data(), p_.batch, p_.out_channels, p_.out_points(), size_of(p_.y_type), p_.y_layout,
                    own_layout(job_.value.layer));
        std::error_code error;
        fs::create_directories(fs::path(output).parent_path(), error);
        const Shape &shape = job_.resolution.y;
        write_npy(output, npy_type(p_.y_type), {shape.sizes, shape.sizes + shape.rank}, y.data());
    }

    void remove() const {
        std::error_code error;
        for (const char *name : inputs) fs::remove(path(name), error);
        fs::remove(path("y"), error);
    }

  private:
    // In the harness's order.
    static constexpr const char *inputs[] = {"x", "w", "bias", "residual", "offset", "mask", "scale", "zero_points"};

    std::string path(const char *tensor) const { return fmt::format("{}/{}.{}.bin", folder_, job_.line, tensor); }

    void write(const char *tensor, const std::vector<std::byte> &data) const {
        write_raw(path(tensor), data);
        written_.insert(tensor);
    }

    // A tensor of the document's dimension order as it lies for the kernel.
    std::vector<std::byte> reordered(const std::string &file, DType type, int64_t channels, int64_t points,
                                     Layout layout) const {
        const Layout own = own_layout(job_.value.layer);
        return reorder(read_npy(file).data.data(), p_.batch, channels, points, size_of(type), own, layout);
    }

    std::vector<std::byte> weights() const {
        std::vector<std::byte> data = read_npy(job_.value.w).data;
        if (job_.value.layer.w_layout.empty()) return data;
        LayerSpec own = job_.value.layer;
        own.w_layout.clear();
        return reorder_weights(p_, data.data(), resolve(own).weight_strides, job_.resolution.weight_strides);
    }

    const Job &job_;
    const Problem &p_;
    const std::string &folder_;
    mutable std::set<std::string_view> written_;
};

class Run {
  public:
    explicit Run(const RunOptions &options)
        : options_(options),
          target_(options.target.empty() ? "host" : options.target),
          toolchain_(find_toolchain(options.cxx, options.runner, find_target(target_))),
          lines_(read_cases(options.cases)),
          answers_(lines_.size()) {}

    // Returns the exit status.
    int run() {
        make_output_folder(options_.output);
        for (size_t line = 0; line < lines_.size(); ++line) add(line);
        if (!jobs_.empty()) compute();
        answers_.write(options_.output + "/results.jsonl");
        return answers_.any_failed() ? 1 : 0;
    }

  private:
    // Resolves a case: it becomes a job, or is answered.
    void add(size_t line) {
        const CaseLine &c = lines_[line];
        if (!c.value) return answers_.fail(line, c.name, to_string(c.code), c.message);
        try {
            Job job = {line, c.name, *c.value, resolve(c.value->layer), c.value->output, ""};
            if (job.output.empty()) job.output = c.name + ".npy";
            if (!outputs_.insert(fs::path(job.output).lexically_normal()).second)
                throw Error(fmt::format("output is \"{}\": an earlier case writes it too", job.output));
            jobs_.push_back(std::move(job));
        } catch (const Error &error) {
            answers_.fail(line, c.name, to_string(error.code), error.what());
        }
    }

    std::string output_path(const Job &job) const { return (fs::path(options_.output) / job.output).string(); }

    void fail(const Job &job, StatusCode code, const std::string &message) {
        answers_.fail(job.line, job.name, to_string(code), message);
    }

    void fail_all(StatusCode code, const std::string &message) {
        for (const Job &job : jobs_)
            if (!answers_.given(job.line)) fail(job, code, message);
    }

    // The problem a job's kernel is made for.
    Problem kernel_problem(const Job &job) const {
        const Problem &problem = job.resolution.problem;
        return options_.engine == RunOptions::Engine::generic ? generic_pattern(problem) : problem;
    }

    // Gives jobs that can share a kernel one layer.
    std::vector<LayerSpec> name_layers() {
        std::map<std::string, std::string> names;
        std::vector<LayerSpec> layers;
        for (Job &job : jobs_) {
            const std::string problem = print(kernel_problem(job)).c_str();
            const auto [at, is_new] = names.try_emplace(problem, fmt::format("layer{}", names.size()));
            job.layer = at->second;
            if (!is_new) continue;
            layers.emplace_back();
            layers.back().name = job.layer;
            layers.back().problem = problem;
        }
        return layers;
    }

    // Compiles, builds and runs. An error that stops everything answers all cases that are left.
    void compute() {
        const TempFolder folder;
        try {
            const CompiledLibrary library = compile(folder.path());
            if (!jobs_left()) return;
            const BuiltProgram built = build_program(library, toolchain_, folder.path(), options_.jobs);
            fail_layers(built.failures);
            while (built.program && jobs_left()) run_requests(*built.program, folder.path());
        } catch (const Error &error) {
            fail_all(error.code, error.what());
        }
    }

    bool jobs_left() const {
        return std::any_of(jobs_.begin(), jobs_.end(), [&](const Job &job) { return !answers_.given(job.line); });
    }

    CompiledLibrary compile(const std::string &folder) {
        LibraryRequest request;
        request.name = "cases";
        request.layers = name_layers();
        request.targets = {target_};
        request.folder = folder;
        request.decisions = options_.decisions;
        request.jobs = options_.jobs;
        request.stand_ins = options_.stand_ins;
        Progress progress("compiling", static_cast<int>(request.layers.size()));
        CompiledLibrary library = compile_library(request, progress);
        for (const std::string &warning : library.warnings) progress.note("kiln: warning: " + warning);
        fail_layers(library.failures);
        return library;
    }

    void fail_layers(const std::vector<Spec::Failure> &failures) {
        for (const Spec::Failure &failure : failures)
            for (const Job &job : jobs_)
                if (job.layer == failure.layer) fail(job, failure.code, failure.message);
    }

    // Runs every job that is not answered. One that ends the program is answered so, and the caller runs the rest.
    void run_requests(const Program &program, const std::string &folder) {
        const std::string requests = folder + "/requests";
        write_requests(requests, folder);
        if (!jobs_left()) return;
        const int status =
            run_process(program.command({"run", requests}), [&](const std::string &line) { take(line, folder); });
        const auto left =
            std::find_if(jobs_.begin(), jobs_.end(), [&](const Job &job) { return !answers_.given(job.line); });
        if (left == jobs_.end()) return;
        fail(*left, StatusCode::failed,
             status > 128 ? fmt::format("the program that computes it was ended by signal {}", status - 128)
                          : fmt::format("the program that computes it ended with status {}", status));
        Tensors(*left, folder).remove();
    }

    void write_requests(const std::string &path, const std::string &folder) {
        std::string text;
        for (const Job &job : jobs_) {
            if (answers_.given(job.line)) continue;
            try {
                text += Tensors(job, folder).request();
            } catch (const Error &error) {
                fail(job, error.code, error.what());
            }
        }
        std::ofstream file(path);
        if (!(file << text).flush())
            throw Error(fmt::format("{} cannot be written: {}", path, std::strerror(errno)), StatusCode::failed);
    }

    // One line of the program's answers (harness.h). What is none of them comes from the runner, and is for people.
    void take(const std::string &line, const std::string &folder) {
        std::vector<std::string> fields;
        for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
            end = line.find('\t', begin);
            fields.push_back(line.substr(begin, end - begin));
        }
        const auto job = fields.size() >= 3
                             ? std::find_if(jobs_.begin(), jobs_.end(),
                                            [number = std::strtoull(fields[1].c_str(), nullptr, 10)](
                                                const Job &candidate) { return candidate.line == number; })
                             : jobs_.end();
        if (job == jobs_.end()) return fmt::print(stderr, "{}\n", line);
        const Tensors tensors(*job, folder);
        try {
            if (fields[0] == "ok") {
                tensors.finish(output_path(*job));
                answers_.give(job->line, to_answer(*job, fields[2]));
            } else {
                answers_.fail(job->line, job->name, fields[2], fields.back());
            }
        } catch (const Error &error) {
            fail(*job, error.code, error.what());
        }
        tensors.remove();
    }

    const RunOptions &options_;
    const std::string target_;
    const Toolchain toolchain_;
    const std::vector<CaseLine> lines_;
    Answers answers_;
    std::vector<Job> jobs_;
    std::set<fs::path> outputs_;
};

}  // namespace

int run_command(const RunOptions &options) {
    return Run(options).run();
}

}  // namespace kiln::tools
