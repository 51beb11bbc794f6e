// run: layers on tensors from files, one request a line.
#include <cerrno>
#include <cstdio>
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
    enum Field { name, layer, x, w, bias, residual, y, field_count };
    std::vector<std::string> fields;

    const std::string &operator[](Field field) const { return fields[field]; }
};

Request parse_request(const std::string &line) {
    Request request;
    size_t begin = 0;
    for (size_t tab; (tab = line.find('\t', begin)) != std::string::npos; begin = tab + 1)
        request.fields.push_back(line.substr(begin, tab - begin));
    request.fields.push_back(line.substr(begin));
    return request;
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

Buffer read_optional(bool wanted, const char *what, const std::string &path, size_t bytes) {
    return wanted ? read_tensor(what, path, bytes) : nullptr;
}

void write_tensor(const std::string &path, const void *data, size_t bytes) {
    std::FILE *file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) throw Failure("y: " + path + ": " + std::strerror(errno));
    const bool written = std::fwrite(data, 1, bytes, file) == bytes;
    if (std::fclose(file) != 0 || !written) throw Failure("y: " + path + ": " + std::strerror(errno));
}

// Returns which kernel ran: its algorithm and its target.
std::string run_request(const kiln_library &library, const Request &request) {
    Plan plan;
    require(Plan::create(library, request[Request::layer], &plan));
    const Problem &p = plan.problem();
    if (p.has_open_sizes()) throw Failure("the layer leaves sizes open", StatusCode::unsupported);
    const Buffer x = read_tensor("x", request[Request::x], x_bytes(p));
    const Buffer w = read_tensor("w", request[Request::w], w_bytes(p));
    const Buffer bias = read_optional(p.bias, "bias", request[Request::bias], bias_bytes(p));
    const Buffer residual = read_optional(p.residual, "residual", request[Request::residual], y_bytes(p));
    const Buffer packed = allocate(plan.packed_bytes()), workspace = allocate(plan.workspace_bytes());
    const Buffer y = allocate(y_bytes(p));
    require(plan.pack(w.get(), packed.get()));
    RunArguments arguments;
    arguments.x = x.get();
    arguments.packed_weights = packed.get();
    arguments.bias = bias.get();
    arguments.residual = residual.get();
    arguments.y = y.get();
    arguments.workspace = workspace.get();
    arguments.workspace_bytes = plan.workspace_bytes();
    require(plan.run(arguments));
    write_tensor(request[Request::y], y.get(), y_bytes(p));
    return std::string(plan.kernel().algorithm) + '@' + plan.kernel().target;
}

// Whether the request was carried out.
bool answer(const kiln_library &library, const std::string &line) {
    const Request request = parse_request(line);
    try {
        if (request.fields.size() != Request::field_count)
            throw Failure("a request has seven fields", StatusCode::invalid_argument);
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
