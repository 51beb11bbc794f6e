// Prefetching what a loop reads.
#include "lowering/prefetch/prefetch.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "targets/core_model.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

// The instruction's arguments besides the address.
constexpr int to_read = 0, all_caches = 3, second_cache = 2, of_data = 1;

constexpr int most_lines = 1 << 15;  // of a panel, for whose share a step's number is multiplied by it

// The prefetch that a statement is, or, a loop over lines or elements, that it repeats; else null.
const Call *prefetch_of(const Stmt &statement) {
    if (const auto *loop = statement.as<For>()) {
        return is_const(loop->extent) ? prefetch_of(loop->body) : nullptr;
    }
    if (const auto *let = statement.as<LetStmt>()) {
        return prefetch_of(let->body);
    }
    const auto *evaluate = statement.as<Evaluate>();
    return evaluate != nullptr ? Call::as_intrinsic(evaluate->value, {Call::prefetch}) : nullptr;
}

// By how many elements a loop over prefetches goes on. Halide 21 divides what is fetched by lines, and then takes a
// line's bytes for its elements.
int64_t step_of(const For &loop, const Expr &offset, const Halide::Type &type) {
    const Expr step = simplify(substitute(loop.name, 1, offset) - substitute(loop.name, 0, offset));
    const auto elements = as_const_int(step);
    if (!elements) {
        throw Halide::InternalError("the steps of prefetches are not constant");
    }
    return *elements == line_bytes ? line_bytes / type.bytes() : *elements;
}

class LowerPrefetches : public IRMutator {
  public:
    LowerPrefetches(const SharedPrefetches &shared, const std::vector<std::string> &arguments) : shared_(shared) {
        for (const std::string &name : arguments) {
            around_.push_back({name, 1, {}});
        }
    }

  protected:
    using IRMutator::visit;
    Expr visit(const Call *op) override {
        return op->is_intrinsic(Call::prefetch) ? fetch(*op, op->args[1]) : IRMutator::visit(op);
    }
    Stmt visit(const LetStmt *op) override {
        around_.push_back({op->name, 1, op->value});
        const Stmt result = IRMutator::visit(op);
        around_.pop_back();
        return result;
    }
    Stmt visit(const For *op) override {
        if (prefetch_of(op) == nullptr) {
            const auto extent = as_const_int(op->extent);
            around_.push_back({op->name, extent ? static_cast<int>(*extent) : 1, {}, true});
            const Stmt result = IRMutator::visit(op);
            around_.pop_back();
            return result;
        }
        offsets_.clear();
        const Expr prefetch = collect(op, 0);
        const Call &call = *prefetch.as<Call>();
        return shared_.iterations == 1 ? all_lines(call) : share_of_lines(call);
    }

  private:
    // Loops, the outermost first, and their extents where those are constant, else 1; arguments; or what is defined
    // there, and its value.
    struct Around {
        std::string name;
        int extent = 1;
        Expr value;
        bool is_loop = false;  // here: an argument may be a loop of the caller's, or what is handed to it
    };

    // Of what begins inside a line, the line in which a line's bytes from `element` on end is asked for into all
    // caches: that in which they begin the tile or the step before has read. 1x1 of 1280 to 256 channels at 33x33,
    // whose planes begin anywhere in lines, takes 6.3 ms on a Zen 4, and 8.1 where each vector's first line is asked
    // for.
    Expr fetch(const Call &prefetch, const Expr &element, bool into_all_caches = true) {
        const int64_t last = into_all_caches ? line_bytes - prefetch.type.bytes() : 0;
        const Expr offset =
            Halide::cast(Halide::Int(64), element) * prefetch.type.bytes() + make_const(Halide::Int(64), last);
        return prefetch_line(prefetch.args[0], offset, into_all_caches);
    }

    // The elements whose lines a loop over prefetches asks for, in offsets_, `further` elements on; and one of the
    // prefetches. Where a loop is over elements several are of a line.
    Expr collect(const Stmt &statement, int64_t further) {
        Stmt body = statement;
        while (const auto *let = body.as<LetStmt>()) {
            body = substitute(let->name, let->value, let->body);
        }
        const auto *loop = body.as<For>();
        if (loop == nullptr) {
            const Call *prefetch = prefetch_of(body);
            offsets_.push_back(prefetch->args[1] + make_const(Halide::Int(32), further));
            return prefetch;
        }
        Stmt inner = loop->body;
        while (const auto *let = inner.as<LetStmt>()) {
            inner = substitute(let->name, let->value, let->body);
        }
        const Call *prefetch = prefetch_of(inner);
        const int64_t step = step_of(*loop, prefetch->args[1], prefetch->type), bytes = step * prefetch->type.bytes();
        const int64_t of_line = inner.as<For>() || bytes <= 0 ? 1 : std::max(line_bytes / bytes, int64_t(1));
        const Stmt first = substitute(loop->name, loop->min, inner);
        Expr last = prefetch;
        for (int64_t i = 0; i < *as_const_int(loop->extent); i += of_line) {
            last = collect(first, further + i * step);
        }
        return last;
    }

    Stmt all_lines(const Call &prefetch) {
        std::vector<Stmt> lines;
        for (const Expr &offset : offsets_) {
            lines.push_back(Evaluate::make(fetch(prefetch, offset)));
        }
        return Block::make(lines);
    }

    // The lines that this iteration asks for: a run of them, as many in each of its steps. All that a step reads ahead
    // where they do not lie side by side, as those of a panel that is filled up, or where no loop shares them.
    Stmt share_of_lines(const Call &prefetch) {
        const int elements = line_bytes / prefetch.type.bytes();
        std::set<int64_t> from_first;
        for (const Expr &offset : offsets_) {
            const auto distance = as_const_int(simplify(offset - offsets_[0]));
            if (!distance || *distance % elements != 0) {
                return all_lines(prefetch);
            }
            from_first.insert(*distance / elements);
        }
        const int64_t all = shared_.bytes / line_bytes;
        const auto count = static_cast<int>(from_first.size()), first = static_cast<int>(*from_first.begin());
        const auto shares = [&](const Around &around) {
            return std::any_of(shared_.loops.begin(), shared_.loops.end(), [&](const std::string &part) {
                return !around.value.defined() && around.name.find("." + part) != std::string::npos;
            });
        };
        const auto steps = std::find_if(around_.rbegin(), around_.rend(), shares).base();
        if (*from_first.rbegin() - first != count - 1 || steps == around_.begin() || all < 1 || all > most_lines) {
            return all_lines(prefetch);
        }
        Expr iteration = 0;
        int inside = 1;
        for (auto around = steps; around-- != around_.begin();) {
            if (shares(*around)) {
                iteration = iteration + Variable::make(Halide::Int(32), around->name) * inside;
                inside *= around->extent;
            }
        }
        const int iterations = shared_.iterations == 0 ? inside : shared_.iterations;
        const int of_all = static_cast<int>(all), share = (of_all + iterations - 1) / iterations;
        const int lines = (count * share + of_all - 1) / of_all;
        const auto [begin, from_begin] = of_steps(steps);
        const Expr run = simplify(begin + (first + iteration % iterations * share) * elements);
        const Expr line = simplify(from_begin / elements * share / of_all);
        std::vector<Stmt> result;
        for (int i = 0; i < lines; i++) {
            result.push_back(Evaluate::make(fetch(prefetch, run + (line + i) * elements, false)));
        }
        return Block::make(result);
    }

    // What the first of all steps fetches, and how far from it is what this one does. From `steps` on are their loops,
    // and what is defined among them.
    std::pair<Expr, Expr> of_steps(std::vector<Around>::const_iterator steps) const {
        Scope<> inside;
        for (auto around = steps; around != around_.end(); ++around) {
            if (around->is_loop || (around->value.defined() && expr_uses_vars(around->value, inside))) {
                inside.push(around->name);
            }
        }
        Expr begin = offsets_[0], here = begin;
        for (auto around = around_.end(); around-- != steps;) {
            if (around->is_loop) {
                begin = substitute(around->name, 0, begin);
            } else if (inside.contains(around->name)) {
                begin = substitute(around->name, around->value, begin);
                here = substitute(around->name, around->value, here);
            }
        }
        return {begin, simplify(here - begin)};
    }

    const SharedPrefetches &shared_;
    std::vector<Around> around_;
    std::vector<Expr> offsets_;
};

}  // namespace

void prefetch(Halide::Stage stage, const Halide::Func &input, const Halide::VarOrRVar &loop, int ahead) {
    const auto *read = input.value().as<Call>();
    if (read == nullptr || !read->param.defined()) {
        throw std::logic_error("prefetch: " + input.name() + " is no input tensor");
    }
    stage.prefetch(read->param, loop, loop, ahead, Halide::PrefetchBoundStrategy::NonFaulting);
}

Expr prefetch_line(const Expr &tensor, const Expr &bytes, bool into_all_caches) {
    const Expr address = Halide::reinterpret(Halide::UInt(64), tensor) + Halide::cast(Halide::UInt(64), bytes);
    return Call::make(
        Halide::Int(32), prefetch_instruction,
        {Halide::reinterpret(Halide::Handle(), address), to_read, into_all_caches ? all_caches : second_cache, of_data},
        Call::Extern);
}

Stmt lower_prefetches(const Stmt &statement, const SharedPrefetches &shared,
                      const std::vector<std::string> &arguments) {
    return LowerPrefetches(shared, arguments).mutate(statement);
}

}  // namespace kiln
