// Copies: each loop of the output takes steps of its own through the input, or reads where to go from a table; outside
// of a range there is a fill.
#include "expressions/arithmetic.h"
#include "moves/tail_strategy.h"
#include "moves/transpose_block.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/parameters.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Var;
using Exprs = std::vector<Expr>;

// The vectors of a transposed block, which are as many rows of it.
constexpr int most_block_rows = 8;

// A loop, the outermost first, as the text says it.
struct CopyLoop {
    int64_t extent = 1, stride = 0;
    int64_t low = 0, high = 0;           // where it is not filled
    int64_t table = -1, table_size = 0;  // the input that its steps are read from, -1 where that is none
};

class Copy : public Operation {
  public:
    Copy(const OperationTensors &tensors, TextReader &reader) : tensors_(tensors) {
        reader.expect("-n");
        const std::vector<int64_t> extents = reader.integers('x', "how many steps a loop has");
        loops_.resize(extents.size());
        reader.expect("-i");
        first_ = reader.integer("the first element");
        reader.expect(",");
        const std::vector<int64_t> strides = counted(reader, reader.integers('x', "a loop's stride"));
        for (size_t d = 0; d < loops_.size(); d++) {
            loops_[d] = {.extent = extents[d], .stride = strides[d], .high = extents[d]};
        }
        if (reader.accept("-v")) {
            read_range(reader);
        }
        if (reader.accept("-t")) {
            read_tables(reader);
        }
        check(reader);
        make_merged();
    }

    std::string parameters() const override {
        const auto all = [&](int64_t CopyLoop::*member) {
            std::vector<int64_t> numbers;
            for (const CopyLoop &loop : loops_) {
                numbers.push_back(loop.*member);
            }
            return join(numbers, 'x');
        };
        std::string text = "-n" + all(&CopyLoop::extent) + "-i" + std::to_string(first_) + "," + all(&CopyLoop::stride);
        if (has_range_) {
            text += "-v" + all(&CopyLoop::low) + "," + all(&CopyLoop::high) + "-f" + fill_.text;
        }
        std::string tables;
        for (size_t d = 0; d < loops_.size(); d++) {
            if (loops_[d].table >= 0) {
                tables +=
                    (tables.empty() ? "-t" : ",") + std::to_string(d) + ":" + std::to_string(loops_[d].table_size);
            }
        }
        return text + tables;
    }
    std::vector<int64_t> extents() const override { return extents_of(merged_); }

    Func build(const std::vector<Func> &inputs, const TargetModel &target) const override {
        const std::vector<Var> at = vars_of(merged_);
        const Halide::Type type = storage_type(tensors_.output.type);
        const int lanes = lanes_of(target, type);
        Func out("out");
        const int from = transposed_from(lanes);
        if (from > 0) {
            Func block("block");
            block(at) = value(inputs, exprs(at));
            out(at) = block(exprs(at));
            schedule_transposed(out, block, at, from, lanes);
        } else {
            out(at) = value(inputs, exprs(at));
            schedule_elements(out, extents(), lanes, has_range_ ? 2 : 1);
        }
        return out;
    }

  private:
    std::vector<int64_t> counted(const TextReader &reader, const std::vector<int64_t> &numbers) const {
        if (numbers.size() != loops_.size()) {
            reader.fail("expected a number for each of the " + std::to_string(loops_.size()) + " loops");
        }
        return numbers;
    }

    void read_range(TextReader &reader) {
        const std::vector<int64_t> low = counted(reader, reader.integers('x', "where a loop begins"));
        reader.expect(",");
        const std::vector<int64_t> high = counted(reader, reader.integers('x', "where a loop ends"));
        reader.expect("-f");
        fill_ = reader.number("the fill");
        has_range_ = true;
        for (size_t d = 0; d < loops_.size(); d++) {
            loops_[d].low = low[d];
            loops_[d].high = high[d];
            if (low[d] < 0 || high[d] > loops_[d].extent || low[d] > high[d]) {
                reader.fail("the range of loop " + std::to_string(d) + " is not within its steps");
            }
        }
    }

    void read_tables(TextReader &reader) {
        int64_t input = 1;
        do {
            const int64_t d = reader.integer("a loop");
            if (d < 0 || d >= static_cast<int64_t>(loops_.size()) || loops_[d].table >= 0) {
                reader.fail("a table's loop is one of the " + std::to_string(loops_.size()));
            }
            reader.expect(":");
            loops_[d].table_size = reader.integer("below what a table's numbers are");
            loops_[d].table = input++;
        } while (reader.accept(","));
    }

    void check(const TextReader &reader) const {
        int64_t elements = 1, low = first_, high = first_, tables = 0;
        bool is_empty = false;
        for (const CopyLoop &loop : loops_) {
            elements *= loop.extent;
            const bool has_table = loop.table >= 0;
            const int64_t begin = has_table ? 0 : loop.low, end = (has_table ? loop.table_size : loop.high) - 1;
            is_empty |= loop.high <= loop.low || end < begin;
            low += std::min(begin * loop.stride, end * loop.stride);
            high += std::max(begin * loop.stride, end * loop.stride);
            if (has_table) {
                check_table(loop, reader);
                tables++;
            }
        }
        if (tables + 1 != static_cast<int64_t>(tensors_.inputs.size())) {
            reader.fail("there are not as many inputs as tables and what is copied");
        }
        if (tensors_.inputs[0].type != tensors_.output.type || elements != tensors_.output.elements()) {
            reader.fail("the loops do not make the output's elements, or types differ");
        }
        if (!is_empty && (low < 0 || high >= tensors_.inputs[0].elements())) {
            reader.fail("elements " + std::to_string(low) + " to " + std::to_string(high) + " are read of " +
                        std::to_string(tensors_.inputs[0].elements()));
        }
    }

    void check_table(const CopyLoop &loop, const TextReader &reader) const {
        const auto index = static_cast<size_t>(loop.table);
        if (index >= tensors_.inputs.size() || tensors_.inputs[index].elements() != loop.extent ||
            (tensors_.inputs[index].type != ElementType::s32 && tensors_.inputs[index].type != ElementType::s64)) {
            reader.fail("a table is an input of s32 or s64 with a number for each step of its loop");
        }
        if (loop.table_size < 1) {
            reader.fail("a table's numbers are below a size of at least 1");
        }
    }

    // What loops do besides moving keeps them apart from others.
    void make_merged() {
        std::vector<Loop> loops;
        for (size_t d = loops_.size(); d-- > 0;) {
            const CopyLoop &loop = loops_[d];
            const bool is_special = loop.table >= 0 || loop.low > 0 || loop.high < loop.extent;
            loops.push_back({loop.extent, {loop.stride}, false, is_special});
        }
        merged_ = merge_loops(loops);
        for (size_t d = loops_.size(); d-- > 0;) {
            const CopyLoop &loop = loops_[d];
            if (loop.table >= 0 || loop.low > 0 || loop.high < loop.extent) {
                special_.push_back(loop);
            }
        }
    }

    Expr value(const std::vector<Func> &inputs, const Exprs &at) const {
        const Expr fill = store_element(tensors_.output.type, fill_value());
        Exprs step = at;
        Expr is_outside = Halide::Internal::const_false();
        size_t special = 0;
        for (size_t d = 0; d < merged_.size(); d++) {
            if (!merged_[d].fixed) {
                continue;
            }
            const CopyLoop &loop = special_[special++];
            const auto number = [](int64_t n) { return Expr(static_cast<int32_t>(n)); };
            if (loop.low >= loop.high) {
                return fill;
            }
            if (loop.low > 0 || loop.high < loop.extent) {
                is_outside = is_outside || at[d] < number(loop.low) || at[d] >= number(loop.high);
                step[d] = Halide::clamp(Halide::likely(at[d]), number(loop.low), number(loop.high - 1));
            }
            if (loop.table >= 0) {
                const Expr index = Halide::cast<int32_t>(inputs[static_cast<size_t>(loop.table)](step[d]));
                const Expr size = number(loop.table_size);
                step[d] = Halide::clamp(Halide::select(index < 0, index + size, index), 0, size - 1);
            }
        }
        const Expr inside = inputs[0](place_of(merged_, 0, step, first_));
        return Halide::Internal::is_const_zero(is_outside) || tensors_.inputs[0].elements() == 0
                   ? (tensors_.inputs[0].elements() == 0 ? fill : inside)
                   : Halide::select(is_outside, fill, Halide::likely(inside));
    }

    Expr fill_value() const {
        const Halide::Type type = compute_type(tensors_.output.type);
        if (type.is_bool()) {
            return Halide::Internal::make_bool(fill_.value != 0);
        }
        if (type.is_int() && type.bits() == 64) {
            return Halide::Internal::make_const(type, static_cast<int64_t>(std::stoll(fill_.text)));
        }
        return Halide::Internal::make_const(type, fill_.value);
    }

    // The loop along which the input is dense, where that is another than the output's and both have vectors; else 0.
    int transposed_from(int lanes) const {
        if (merged_[0].fixed || merged_[0].strides[0] == 1 || merged_[0].strides[0] == 0 || merged_[0].extent < lanes) {
            return 0;
        }
        for (size_t d = 1; d < merged_.size(); d++) {
            if (merged_[d].strides[0] == 1 && !merged_[d].fixed &&
                merged_[d].extent >= std::min(lanes, most_block_rows)) {
                return static_cast<int>(d);
            }
        }
        return 0;
    }

    void schedule_transposed(Func out, Func block, const std::vector<Var> &at, int from, int lanes) const {
        const Var inner("inner"), outer("outer");
        const int wide = lanes, narrow = std::min(lanes, most_block_rows);
        const size_t dense = static_cast<size_t>(from);
        schedule_transpose(out, block, at[0], at[dense], wide, narrow, inner, outer,
                           tail(static_cast<int>(merged_[dense].extent), narrow));
        std::vector<Shared> loops;
        for (size_t d = merged_.size(); d-- > 1;) {
            const bool is_blocked = d == dense;
            loops.push_back({is_blocked ? outer : at[d],
                             is_blocked ? ceil_div<int64_t>(merged_[d].extent, narrow) : merged_[d].extent});
        }
        std::vector<Halide::VarOrRVar> order = {at[0], at[dense], inner};
        for (size_t i = loops.size(); i-- > 0;) {
            order.emplace_back(loops[i].var);
        }
        out.reorder(order);
        share_pieces(out, loops, static_cast<double>(tensors_.output.elements()));
    }

    OperationTensors tensors_;
    std::vector<CopyLoop> loops_;    // the outermost first, as the text says them
    std::vector<CopyLoop> special_;  // those with ranges or tables, the innermost first: the fixed ones of merged_
    std::vector<Loop> merged_;
    int64_t first_ = 0;
    bool has_range_ = false;
    TextNumber fill_;
};

}  // namespace

std::unique_ptr<const Operation> read_copy(const OperationKind &, const OperationTensors &tensors, TextReader &reader) {
    return std::make_unique<const Copy>(tensors, reader);
}

}  // namespace kiln
