// run: layers on tensors from files, one request a line.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>

#include "harness/gpu.h"
#include "harness/harness.h"
#include "harness/tensors/data.h"
#include "harness/tensors/guard.h"
#include "kiln/plan.h"

namespace kiln::harness {
namespace {

// Why a request failed.
struct Failure : std::runtime_error {
    explicit Failure(const std::string &message, StatusCode code = StatusCode::failed)
        : std::runtime_error(message), code(code) {}
    StatusCode code;
};

void require(const Status &status) {
    if (!status.ok()) throw Failure(status.message(), status.code());
}

struct Request {
    // From `tensors` on, a file for each Tensor, in their order.
    enum Field { name, problem, strides, tensors, field_count = tensors + tensor_count };
    std::vector<std::string> fields;

    const std::string &operator[](Field field) const { return fields[field]; }
    const std::string &operator[](Tensor tensor) const { return fields[tensors + static_cast<size_t>(tensor)]; }
};

std::vector<std::string> split(const std::string &text, char separator) {
    std::vector<std::string> parts;
    size_t begin = 0;
    for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1)
        parts.push_back(text.substr(begin, end - begin));
    parts.push_back(text.substr(begin));
    return parts;
}

std::vector<int64_t> parse_strides(const Problem &p, const std::string &text) {
    std::vector<int64_t> strides;
    for (const std::string &number : split(text, ',')) strides.push_back(std::strtoll(number.c_str(), nullptr, 10));
    if (strides.size() != static_cast<size_t>(p.rank + 2))
        throw Failure("weight-strides is " + text + ": " + std::to_string(p.rank + 2) + " are needed",
                      StatusCode::invalid_argument);
    return strides;
}

// Fills a buffer from a file that holds exactly its bytes.
void read_tensor(const std::string &path, size_t bytes, const char *name, void *data) {
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) throw Failure(std::string(name) + ": " + path + ": " + std::strerror(errno));
    const bool complete = std::fread(data, 1, bytes, file) == bytes && std::fgetc(file) == EOF;
    std::fclose(file);
    if (!complete)
        throw Failure(std::string(name) + ": " + path + " does not hold " + std::to_string(bytes) + " bytes");
}

void write_tensor(const std::string &path, const void *data, size_t bytes) {
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) throw Failure("y: " + path + ": " + std::strerror(errno));
    const bool written = std::fwrite(data, 1, bytes, file) == bytes;
    if (std::fclose(file) != 0 || !written) throw Failure("y: " + path + ": " + std::strerror(errno));
}

// A run's memory, all of it between guard pages: an access out of bounds is an answer rather than luck.
class GuardedRun {
  public:
    GuardedRun(const Problem &problem, const Plan &plan, GuardedBuffer::Side side)
        : problem_(problem),
          plan_(plan),
          packed_("the packed weights", plan.packed_bytes(), side, KILN_ALIGNMENT, 0xff),
          workspace_("the workspace", plan.workspace_bytes(), side, KILN_ALIGNMENT, 0xff) {
        for (int i = 0; i < tensor_count; ++i) {
            const auto tensor = static_cast<Tensor>(i);
            tensors_.emplace_back(name_of(tensor), bytes_of(problem, tensor), side, alignment_of(problem, plan, tensor),
                                  0xff);
        }
    }

    void read(const Request &request) {
        for (const Tensor tensor : all_inputs) {
            if (has(problem_, tensor))
                read_tensor(request[tensor], bytes_of(problem_, tensor), name_of(tensor), pointer(tensor));
            tensors_[static_cast<size_t>(tensor)].make_read_only();
        }
    }

    void run(const std::vector<int64_t> &strides) {
        Pointers pointers{};
        for (int i = 0; i < tensor_count; ++i) pointers[i] = tensors_[i].data();
        RunArguments arguments = run_arguments(problem_, pointers);
        arguments.packed_weights = packed_.data();
        arguments.workspace = workspace_.data();
        arguments.workspace_bytes = plan_.workspace_bytes();
        const void *zero_points = has(problem_, Tensor::zero_points) ? pointer(Tensor::zero_points) : nullptr;
        Status status;
        const std::string fault = catch_faults(print(problem_).c_str(), [&] {
            status = plan_.pack(pointer(Tensor::w), strides.data(), packed_.data(),
                                static_cast<const int32_t *>(zero_points));
            packed_.make_read_only();
            if (status.ok()) status = run_plan(plan_, arguments);
        });
        if (!fault.empty()) throw Failure("the kernel made " + fault);
        require(status);
        GuardedBuffer *const written[] = {&packed_, &workspace_, &tensors_[static_cast<size_t>(Tensor::y)]};
        for (const GuardedBuffer *buffer : written)
            if (const std::string stray = buffer->stray_write(); !stray.empty())
                throw Failure("the kernel made " + stray);
    }

    const void *y() const { return pointer(Tensor::y); }

  private:
    void *pointer(Tensor tensor) const { return tensors_[static_cast<size_t>(tensor)].data(); }

    const Problem &problem_;
    const Plan &plan_;
    std::deque<GuardedBuffer> tensors_;  // in the order of Tensor
    GuardedBuffer packed_, workspace_;
};

// Returns which kernel ran: its algorithm and its target.
std::string run_request(const kiln_library &library, const Request &request, GuardedBuffer::Side side) {
    Problem p;
    require(parse(request[Request::problem], &p));
    Plan plan;
    require(Plan::create(library, p, &plan));
    GuardedRun run(p, plan, side);
    run.read(request);
    run.run(parse_strides(p, request[Request::strides]));
    write_tensor(request[Tensor::y], run.y(), bytes_of(p, Tensor::y));
    return std::string(plan.kernel().algorithm) + '@' + plan.kernel().target;
}

// Whether the request was carried out.
bool answer(const kiln_library &library, const std::string &line, GuardedBuffer::Side side) {
    const Request request{split(line, '\t')};
    try {
        if (request.fields.size() != Request::field_count)
            throw Failure("a request has " + std::to_string(Request::field_count) + " fields",
                          StatusCode::invalid_argument);
        const std::string kernel = run_request(library, request, side);
        std::printf("ok\t%s\t%s\n", request[Request::name].c_str(), kernel.c_str());
        return true;
    } catch (const Failure &failure) {
        std::printf("error\t%s\t%s\t%s\n", request[Request::name].c_str(), to_string(failure.code), failure.what());
    }
    return false;
}

bool read_line(std::FILE *file, std::string *line) {
    line->clear();
    for (int c; (c = std::fgetc(file)) != EOF;) {
        if (c == '\n') return true;
        *line += static_cast<char>(c);
    }
    return !line->empty();
}

}  // namespace

int run(const kiln_library &library, const Options &options) {
    std::FILE *file = std::fopen(options.requests.c_str(), "r");
    if (file == nullptr) {
        std::fprintf(stderr, "%s: %s\n", options.requests.c_str(), std::strerror(errno));
        return 1;
    }
    bool all_ok = true;
    // Buffers lie before a guard page and behind one in turns.
    auto side = GuardedBuffer::Side::end;
    for (std::string line; read_line(file, &line);) {
        all_ok = answer(library, line, side) && all_ok;
        side = side == GuardedBuffer::Side::end ? GuardedBuffer::Side::begin : GuardedBuffer::Side::end;
        std::fflush(stdout);
    }
    std::fclose(file);
    return all_ok ? 0 : 1;
}

}  // namespace kiln::harness
