// run: layers on tensors from files, one request a line.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "harness/buffer.h"
#include "harness/data.h"
#include "harness/harness.h"
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

// A file of exactly `bytes` bytes. `what` is the tensor's name.
Buffer read_tensor(const char *what, const std::string &path, size_t bytes) {
    std::FILE *file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) throw Failure(std::string(what) + ": " + path + ": " + std::strerror(errno));
    Buffer data = allocate(bytes);
    const bool complete = std::fread(data.get(), 1, bytes, file) == bytes && std::fgetc(file) == EOF;
    std::fclose(file);
    if (!complete)
        throw Failure(std::string(what) + ": " + path + " does not hold " + std::to_string(bytes) + " bytes");
    return data;
}

void write_tensor(const std::string &path, const void *data, size_t bytes) {
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) throw Failure("y: " + path + ": " + std::strerror(errno));
    const bool written = std::fwrite(data, 1, bytes, file) == bytes;
    if (std::fclose(file) != 0 || !written) throw Failure("y: " + path + ": " + std::strerror(errno));
}

// Returns which kernel ran: its algorithm and its target.
std::string run_request(const kiln_library &library, const Request &request) {
    Problem p;
    require(parse(request[Request::problem], &p));
    Plan plan;
    require(Plan::create(library, p, &plan));
    const std::vector<int64_t> strides = parse_strides(p, request[Request::strides]);
    std::array<Buffer, tensor_count> buffers;
    Pointers pointers{};
    for (const Tensor tensor : all_inputs) {
        const auto index = static_cast<size_t>(tensor);
        if (has(p, tensor)) buffers[index] = read_tensor(name_of(tensor), request[tensor], bytes_of(p, tensor));
        pointers[index] = buffers[index].get();
    }
    const Buffer y = allocate(bytes_of(p, Tensor::y));
    const Buffer packed = allocate(plan.packed_bytes()), workspace = allocate(plan.workspace_bytes());
    pointers[static_cast<size_t>(Tensor::y)] = y.get();
    const auto pointer = [&](Tensor tensor) { return pointers[static_cast<size_t>(tensor)]; };
    require(plan.pack(pointer(Tensor::w), strides.data(), packed.get(),
                      static_cast<const int32_t *>(pointer(Tensor::zero_points))));
    RunArguments arguments = run_arguments(p, pointers);
    arguments.packed_weights = packed.get();
    arguments.workspace = workspace.get();
    arguments.workspace_bytes = plan.workspace_bytes();
    require(plan.run(arguments));
    write_tensor(request[Tensor::y], y.get(), bytes_of(p, Tensor::y));
    return std::string(plan.kernel().algorithm) + '@' + plan.kernel().target;
}

// Whether the request was carried out.
bool answer(const kiln_library &library, const std::string &line) {
    const Request request{split(line, '\t')};
    try {
        if (request.fields.size() != Request::field_count)
            throw Failure("a request has " + std::to_string(Request::field_count) + " fields", StatusCode::invalid_argument);
        const std::string kernel = run_request(library, request);
        std::printf("ok\t%s\t%s\n", request[Request::name].c_str(), kernel.c_str());
        return true;
    } catch (const Failure &failure) {
        std::printf("error\t%s\t%s\t%s\n", request[Request::name].c_str(), to_string(failure.code), failure.what());
    } catch (const std::bad_alloc &) {
        std::printf("error\t%s\t%s\tnot enough memory\n", request[Request::name].c_str(),
                    to_string(StatusCode::failed));
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
    for (std::string line; read_line(file, &line);) {
        all_ok = answer(library, line) && all_ok;
        std::fflush(stdout);
    }
    std::fclose(file);
    return all_ok ? 0 : 1;
}

}  // namespace kiln::harness
