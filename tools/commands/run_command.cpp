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

#include "commands/commands.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "layers/cases.h"
#include "layers/npy.h"
#include "library/generic.h"
#include "library/output_folder.h"
#include "nlohmann/json.hpp"
#include "programs/programs.h"
#include "system/process.h"
#include "system/temp_folder.h"
#include "targets/target_model.h"

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
    std::vector<int64_t> sizes = {p.w_channels()[0], p.w_channels()[1]};
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
        const int64_t *strides = job_.resolution.weight_strides;
        std::string line =
            fmt::format("{}\t{}\t{}", job_.line, print(p_).c_str(), fmt::join(strides, strides + p_.rank + 2, ","));
        for (const TensorTraits &row : tensor_traits) {
            if (row.tensor == Tensor::y) continue;
            if (has(p_, row.tensor)) write_raw(path(row.name), data_of(row));
            line += "\t" + (has(p_, row.tensor) ? path(row.name) : "-");
        }
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
        for (const TensorTraits &row : tensor_traits) fs::remove(path(row.name), error);
    }

  private:
    std::string path(const char *tensor) const { return fmt::format("{}/{}.{}.bin", folder_, job_.line, tensor); }

    // An input as the kernel reads it.
    std::vector<std::byte> data_of(const TensorTraits &row) const {
        const Case &c = job_.value;
        switch (row.shape) {
            case TensorShape::input:
                return reordered(row.tensor, p_.in_points(), p_.x_layout);
            case TensorShape::output:
                return reordered(row.tensor, p_.out_points(), p_.y_layout);
            case TensorShape::samples:
                return reordered(row.tensor, p_.out_points(), p_.x_layout);
            case TensorShape::filter:
                return weights();
            case TensorShape::list:
                break;
        }
        if (row.tensor == Tensor::zero_points) return raw(c.layer.weight_zero_points(p_));
        if (row.tensor != Tensor::scale) return read_npy(c.file(row.tensor)).data;
        const std::vector<float> scale = c.layer.output_scale(p_);
        if (scale.empty())
            throw Error(fmt::format("activation_params is missing: {} takes a slope for each of {} output channels",
                                    c.layer.activation, p_.out_channels));
        return raw(scale);
    }

    // A tensor of the document's dimension order as it lies for the kernel.
    std::vector<std::byte> reordered(Tensor tensor, int64_t points, Layout layout) const {
        const std::vector<std::byte> data = read_npy(job_.value.file(tensor)).data;
        return reorder(data.data(), p_.batch, channels_of(p_, tensor), points, size_of(type_of(p_, tensor)),
                       own_layout(job_.value.layer), layout);
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
};

class Run {
  public:
    explicit Run(const RunOptions &options)
        : options_(options),
          toolchain_(find_toolchain(options.cxx, options.runner, find_target(options.target_or_host()))),
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
        CompiledLibrary library = compile_kernels(options_, "cases", name_layers(), folder);
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
