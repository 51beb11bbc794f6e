#include "network_function.h"

#include <Halide.h>

#include <algorithm>
#include <stdexcept>

#include "function_parts.h"
#include "kiln/kernel.h"
#include "lowering/native_code.h"
#include "lowering/object_symbols.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Handle;
using Halide::Int;
using Halide::Target;
using Halide::UInt;

class FunctionWriter {
  public:
    FunctionWriter(const NetworkFunction &function, const std::vector<Expr> &constants, const Target &target)
        : function_(function), constants_(constants), target_(target), refusals_{function.called} {}

    IrStmt body() const {
        std::vector<IrStmt> statements;
        std::vector<std::string> names;
        for (const NetworkField &field : function_.fields) {
            names.push_back(field.name);
            if (field.alignment > 0) {
                statements.push_back(refusals_.require_pointer(field.name));
            }
            if (field.alignment > 1) {
                statements.push_back(refusals_.require_aligned(field.name, field.alignment));
            }
        }
        std::vector<IrStmt> steps;
        for (size_t i = 0; i < function_.calls.size(); i++) {
            steps.push_back(function_.is_traced ? traced(i) : step(function_.calls[i]));
        }
        if (function_.is_traced) {
            steps.push_back(tell(function_.calls.size()));
        }
        IrStmt run = Block::make(steps);
        if (has_workspace()) {
            run = LetStmt::make("workers", call("kiln_workers", {pointer("threads")}), run);
        }
        statements.push_back(run);
        return then(refusals_.require_pointer("args"), with_fields(names, target_, Block::make(statements)));
    }

  private:
    static Expr number(size_t step) { return make_const(Int(32), static_cast<int64_t>(step)); }

    static IrStmt tell(size_t step) { return pass_on(call("kiln_network_step", {number(step)})); }

    // A step as often as the program wants it: no step writes what it reads.
    IrStmt traced(size_t i) const {
        return For::make("repeat", 0, call("kiln_network_repeats", {number(i)}), ForType::Serial,
                         Halide::Partition::Never, Halide::DeviceAPI::None,
                         Block::make(tell(i), step(function_.calls[i])));
    }

    bool has_workspace() const {
        return std::any_of(function_.calls.begin(), function_.calls.end(), [](const NetworkCall &call) {
            return std::any_of(call.arguments.begin(), call.arguments.end(), [](const NetworkPointer &argument) {
                return argument.base == NetworkPointer::Base::workspace;
            });
        });
    }

    Expr field(int index) const { return pointer(function_.fields.at(index).name); }

    static Expr behind(const Expr &base, int64_t offset) {
        return offset == 0 ? base : moved(base, make_const(UInt(64), offset));
    }

    Expr place(const NetworkPointer &at) const {
        switch (at.base) {
            case NetworkPointer::Base::null:
                return null_pointer();
            case NetworkPointer::Base::field:
                return behind(field(at.index), at.offset);
            case NetworkPointer::Base::constant:
                return behind(constants_.at(at.index), at.offset);
            case NetworkPointer::Base::arena:
                return behind(pointer("arena"), at.offset);
            case NetworkPointer::Base::workspace: {
                // The plan has room for one worker; what several take together lies behind it.
                const Expr several = Variable::make(Int(32), "workers") > 1;
                return moved(pointer("arena"), select(several, make_const(UInt(64), function_.arena_bytes),
                                                      make_const(UInt(64), at.offset)));
            }
            case NetworkPointer::Base::threads:
                return pointer("threads");
        }
        return null_pointer();
    }

    IrStmt step(const NetworkCall &step) const {
        std::vector<Expr> arguments;
        for (const NetworkPointer &argument : step.arguments) {
            arguments.push_back(place(argument));
        }
        if (step.callback >= 0) {
            const auto outputs = arguments.end() - static_cast<std::ptrdiff_t>(step.outputs);
            return pass_on(
                call("kiln_call_back", {field(step.callback), pointer("context"), list({arguments.begin(), outputs}),
                                        list({outputs, arguments.end()})}));
        }
        if (!step.refusal.empty()) {
            const Expr held = Load::make(UInt(8), "condition", 0, Halide::Buffer<>(), Halide::Parameter(), const_true(),
                                         ModulusRemainder());
            return LetStmt::make(
                "condition", arguments.at(0),
                require(held != make_const(UInt(8), 0), refusals_.refuse(kiln_invalid_argument, step.refusal)));
        }
        std::vector<Choice> choices;
        for (const NetworkCall::Kernel &kernel : step.kernels) {
            choices.push_back({kernel.features, call(kernel.symbol, arguments)});
        }
        return pick(choices, refusals_);
    }

    // An array of pointers, on the stack.
    static Expr list(const std::vector<Expr> &pointers) {
        return pointers.empty() ? null_pointer() : Call::make(Handle(), Call::make_struct, pointers, Call::Intrinsic);
    }

    const NetworkFunction &function_;
    const std::vector<Expr> &constants_;
    const Target &target_;
    const Refusals refusals_;
};

Expr size_field(size_t index) {
    return Load::make(Int(64), "args", static_cast<int>(index), Halide::Buffer<>(), Halide::Parameter(), const_true(),
                      ModulusRemainder());
}

Expr size(size_t index) {
    return Variable::make(Int(64), "size" + std::to_string(index));
}

// Calls the function of the sizes from the `index`-th on, of which there are `count`, beginning with the `first`-th.
IrStmt pick_by_sizes(const NetworkChoice &choice, size_t index, size_t first, size_t count) {
    if (index == choice.sizes.size()) {
        const Expr fields = moved(pointer("args"), make_const(UInt(64), static_cast<int64_t>(8 * choice.sizes.size())));
        return pass_on(call(choice.functions.at(first), {fields}));
    }
    const NetworkSizeField &field = choice.sizes[index];
    const size_t each = count / field.values.size();
    const Expr refused =
        Call::make(Int(32), "kiln_refuse_size",
                   {Expr(choice.symbol), Expr("\"" + field.name + "\" must be " + listed(field.values)), size(index)},
                   Call::Extern);
    IrStmt picked = require(const_false(), refused);
    for (size_t i = field.values.size(); i-- > 0;) {
        // Not an equality, which Halide makes a switch of, whose constants have 32 bits.
        picked = IfThenElse::make(!(size(index) != make_const(Int(64), field.values[i])),
                                  pick_by_sizes(choice, index + 1, first + i * each, each), picked);
    }
    return picked;
}

IrStmt choice_body(const NetworkChoice &choice) {
    IrStmt body = pick_by_sizes(choice, 0, 0, choice.functions.size());
    for (size_t i = choice.sizes.size(); i-- > 0;) {
        body = LetStmt::make("size" + std::to_string(i), size_field(i), body);
    }
    return then(Refusals{choice.symbol}.require_pointer("args"), body);
}

// What the functions may define and call.
std::vector<std::string> own_symbols(const NetworkModule &network) {
    std::vector<std::string> symbols = {"kiln_network_step", "kiln_network_repeats", network.name + "_constant"};
    for (const NetworkChoice &choice : network.choices) {
        symbols.push_back(choice.symbol);
    }
    for (const NetworkFunction &function : network.functions) {
        symbols.push_back(function.symbol);
        for (const NetworkCall &call : function.calls) {
            for (const NetworkCall::Kernel &kernel : call.kernels) {
                symbols.push_back(kernel.symbol);
            }
        }
    }
    std::sort(symbols.begin(), symbols.end());
    symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
    return symbols;
}

}  // namespace

std::string listed(const std::vector<int64_t> &values) {
    std::string text;
    for (size_t i = 0; i < values.size(); i++) {
        text += (i == 0 ? "" : i + 1 == values.size() ? " or " : ", ") + std::to_string(values[i]);
    }
    return text;
}

void generate_network_functions(const NetworkModule &network, const std::string &object_file) try {
    const Target target = calling_target(network.architecture);
    Halide::Module module(network.name, target);
    std::vector<Expr> constants;
    for (const std::vector<uint8_t> &bytes : network.constants) {
        constants.push_back(constant(module, network.name + "_constant" + std::to_string(constants.size()), bytes));
    }
    for (const NetworkFunction &function : network.functions) {
        append(module, function.symbol, {"args"}, FunctionWriter(function, constants, target).body());
    }
    for (const NetworkChoice &choice : network.choices) {
        append(module, choice.symbol, {"args"}, choice_body(choice));
    }
    compile_callers(module, object_file);
    check_object_symbols(object_file, own_symbols(network));
} catch (const Halide::Error &error) {
    throw std::runtime_error(error.what());
}

}  // namespace kiln
