#include "lowering/gpu/ptx_calls.h"

#include <algorithm>
#include <sstream>

#include "lowering/gpu_module.h"

namespace kiln {
namespace {

bool starts_with(const std::string &text, const std::string &start) {
    return text.compare(0, start.size(), start) == 0;
}

// What stands between two strings in a line.
std::string between(const std::string &line, const std::string &begin, const std::string &end) {
    const size_t from = line.find(begin), to = line.rfind(end);
    if (from == std::string::npos || to == std::string::npos || to < from + begin.size()) {
        throw Halide::InternalError("a call in PTX is not as expected: " + line);
    }
    return line.substr(from + begin.size(), to - from - begin.size());
}

// LLVM's lines of a call, from the brace that opens it to that which ends it.
PtxCall parse_call(const std::string &text, const std::string &prefix) {
    PtxCall call;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        line.erase(0, line.find_first_not_of(" \t"));
        if (starts_with(line, "st.param.")) {
            call.operands.push_back(between(line, "], ", ";"));
        } else if (starts_with(line, "ld.param.")) {
            call.result = between(line, "\t", ", [retval0];");
        } else if (starts_with(line, "call.uni ")) {
            call.name = between(line, prefix, ", (");
        } else if (!line.empty() && !starts_with(line, ".param ") && !starts_with(line, "{ // callseq")) {
            throw Halide::InternalError("a call in PTX has another line: " + line);
        }
    }
    return call;
}

}  // namespace

std::string replace_calls(const std::string &ptx, const std::string &prefix, const PtxInstruction &instruction) {
    std::string result;
    size_t at = 0;
    for (size_t found = ptx.find(prefix); found != std::string::npos; found = ptx.find(prefix, at)) {
        const size_t line = ptx.rfind('\n', found) + 1;
        const bool is_declaration = starts_with(ptx.substr(line, found - line), ".extern .func ");
        const size_t begin = is_declaration ? line : ptx.rfind("{ // callseq", found);
        const size_t end = is_declaration ? ptx.find(';', found) + 1 : ptx.find("} // callseq", found);
        result += ptx.substr(at, begin - at);
        if (!is_declaration) {
            result += instruction(parse_call(ptx.substr(begin, end - begin), prefix));
        }
        at = ptx.find('\n', end);
    }
    return result + ptx.substr(at);
}

void rewrite_ptx(Halide::Module &module, const std::function<std::string(const std::string &)> &rewrite) {
    Halide::Buffer<> source = device_source(module);
    if (!source.defined()) {
        return;
    }
    char *begin = static_cast<char *>(source.data()), *end = begin + source.size_in_bytes();
    const std::string ptx(begin, std::find(begin, end, '\0')), rewritten = rewrite(ptx);
    if (rewritten.size() > ptx.size()) {
        throw Halide::InternalError("PTX of instructions is longer than that of calls");
    }
    std::fill(std::copy(rewritten.begin(), rewritten.end(), begin), end, '\0');
}

}  // namespace kiln
