#include "lowering/prefetch/output_lines.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "expressions/lets.h"
#include "lowering/func_names.h"
#include "lowering/prefetch/prefetch.h"
#include "targets/core_model.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

// So many iterations at least, of the outermost loops that have them, share a tile's lines: what is in the innermost
// ones is paid by every few products.
constexpr int64_t least_iterations = 3;

// Lines of a tile: `rows` of `run` that follow each other, each row `stride` bytes behind the one before.
struct TileLines {
    std::string tensor;  // as lowering called it
    Expr first;          // bytes, of 64 bits, from its begin to the first
    int64_t rows = 1, run = 1, stride = 0;
};

// The vectors that a statement stores to y, by their last elements: of one that lies across two lines, the first is the
// last of the tile before.
class CollectStores : public IRVisitor {
  public:
    explicit CollectStores(const std::string &output) : output_(output) {}

    std::string tensor;
    int bytes = 0;  // of an element
    std::vector<Expr> last_elements;
    bool is_simple = true;  // whether it stores nothing otherwise: elements, or in loops

  protected:
    using IRVisitor::visit;

    void visit(const LetStmt *op) override {
        lets_.emplace_back(op->name, op->value);
        op->body.accept(this);
        lets_.pop_back();
    }
    void visit(const For *) override { is_simple = false; }
    void visit(const Store *op) override {
        const auto *ramp = op->index.as<Ramp>();
        if (!is_of_func(op->name, output_) || ramp == nullptr || !is_const_one(ramp->stride)) {
            is_simple = false;
            return;
        }
        tensor = op->name;
        bytes = op->value.type().bytes();
        last_elements.push_back(simplify(without_lets(ramp->base + (ramp->lanes - 1), lets_)));
    }

  private:
    const std::string &output_;
    Lets lets_;
};

// One element of each line, in bytes from some element of the tile, in order; nothing where these are not constant.
std::vector<int64_t> distances_of_lines(const CollectStores &stores) {
    std::vector<int64_t> distances, lines;
    for (const Expr &element : stores.last_elements) {
        const auto distance = as_const_int(simplify(element - stores.last_elements[0]));
        if (!distance) {
            return {};
        }
        distances.push_back(*distance * stores.bytes);
    }
    std::sort(distances.rbegin(), distances.rend());
    for (const int64_t distance : distances) {
        if (lines.empty() || lines.back() - distance >= line_bytes) {
            lines.push_back(distance);
        }
    }
    std::reverse(lines.begin(), lines.end());
    return lines;
}

// The lines that a statement writes, if it stores vectors alone, to rows that are equally far apart.
std::optional<TileLines> lines_of(const Stmt &statement, const std::string &output) {
    CollectStores stores(output);
    statement.accept(&stores);
    const std::vector<int64_t> lines = stores.is_simple ? distances_of_lines(stores) : std::vector<int64_t>();
    if (lines.empty()) {
        return std::nullopt;
    }
    const auto count = static_cast<int64_t>(lines.size());
    TileLines result;
    result.tensor = stores.tensor;
    result.first =
        Halide::cast(Halide::Int(64), stores.last_elements[0]) * stores.bytes + make_const(Halide::Int(64), lines[0]);
    while (result.run < count && lines[result.run] - lines[result.run - 1] == line_bytes) {
        result.run++;
    }
    result.stride = result.run < count ? lines[result.run] - lines[0] : line_bytes;
    if (result.run == count) {
        result.run = 1;
    }
    result.rows = count / result.run;
    for (int64_t i = 0; i < count; i++) {
        if (lines[i] - lines[0] != i / result.run * result.stride + i % result.run * line_bytes) {
            return std::nullopt;
        }
    }
    return result;
}

class PrefetchOutputLines : public LetsMutator {
  public:
    PrefetchOutputLines(const std::string &output, int &tiles) : output_(output), tiles_(tiles) {}

  protected:
    using LetsMutator::visit;

    Stmt visit(const For *op) override {
        const ScopedBinding<Interval> range(ranges_, op->name, Interval(op->min, simplify(op->min + op->extent - 1)));
        if (!lines_) {
            return IRMutator::visit(op);
        }
        loops_.push_back({op, most_iterations(*op)});
        int64_t iterations = 1;
        for (const Loop &loop : loops_) {
            iterations *= loop.iterations;
        }
        Stmt body = iterations < least_iterations ? mutate(op->body) : op->body;
        if (body.same_as(op->body)) {  // these are enough, or no loop is inside
            body = Block::make(fetch_share(), body);
            is_fetched_ = true;
        }
        loops_.pop_back();
        return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, body);
    }

    // Sums, and what is made of them.
    Stmt visit(const Block *op) override {
        const auto *sums = op->first.as<ProducerConsumer>();
        if (lines_ || sums == nullptr || !sums->is_producer) {
            return IRMutator::visit(op);
        }
        lines_ = lines_of(op->rest, output_);
        if (!lines_) {
            return IRMutator::visit(op);
        }
        is_fetched_ = false;
        const Stmt first = mutate(op->first);
        lines_.reset();
        tiles_ += is_fetched_ ? 1 : 0;
        return Block::make(first, op->rest);
    }

  private:
    struct Loop {
        const For *loop;
        int64_t iterations;  // the most that it may have
    };

    int64_t most_iterations(const For &loop) const {
        const Expr most = find_constant_bound(simplify(without_lets(loop.extent, lets_)), Direction::Upper, ranges_);
        const auto iterations = most.defined() ? as_const_int(most) : std::nullopt;
        return std::max<int64_t>(iterations.value_or(1), 1);
    }

    // What an iteration asks for: some rows' lines, until all are. Addresses are sums of 64 bits, so that a pointer
    // goes from iteration to iteration: instructions that compute them would take the products' units.
    Stmt fetch_share() const {
        const auto constant = [](int64_t value) { return make_const(Halide::Int(64), value); };
        Expr iteration = constant(0);
        int64_t iterations = 1;
        for (auto at = loops_.rbegin(); at != loops_.rend(); ++at) {
            const Expr of_loop = simplify(Variable::make(Halide::Int(32), at->loop->name) - at->loop->min);
            iteration = iteration + Halide::cast(Halide::Int(64), of_loop) * constant(iterations);
            iterations *= at->iterations;
        }
        iteration = simplify(iteration);
        const int64_t share = (lines_->rows + iterations - 1) / iterations;
        const Expr first = lines_->first + iteration * constant(share * lines_->stride);
        const Expr tensor = Variable::make(Halide::Handle(), lines_->tensor);
        std::vector<Stmt> fetches;
        for (int64_t line = 0; line < share * lines_->run; line++) {
            const int64_t further = line / lines_->run * lines_->stride + line % lines_->run * line_bytes;
            fetches.push_back(Evaluate::make(prefetch_line(tensor, first + constant(further))));
        }
        const int64_t needed = (lines_->rows + share - 1) / share;
        const Stmt all = Block::make(fetches);
        return needed < iterations ? IfThenElse::make(iteration < constant(needed), all) : all;
    }

    const std::string &output_;
    int &tiles_;
    std::optional<TileLines> lines_;  // of the tile whose sums are looked at
    bool is_fetched_ = false;         // whether anything asks for them
    std::vector<Loop> loops_;         // around it, inside the tile
    Scope<Interval> ranges_;          // of loops' variables
};

}  // namespace

Stmt prefetch_output_lines(const Stmt &statement, const std::string &output, int &tiles) {
    return PrefetchOutputLines(output, tiles).mutate(statement);
}

}  // namespace kiln
