// (x - mean) / sqrt(variance + epsilon) * scale + shift, mean and variance over some axes; or, without the mean, by the
// root of the mean square.
#include <algorithm>

#include "expressions/elementwise/strict_math.h"
#include "operators/network/kinds.h"
#include "operators/network/loops/behind.h"
#include "operators/network/loops/parameters.h"
#include "operators/network/loops/rows.h"

namespace kiln {
namespace {

using Halide::Expr;
using Halide::Func;
using Halide::Internal::make_const;

// A row that takes more bytes than this is read twice, not three times, its variance being found from that of blocks.
constexpr int64_t most_kept_bytes = 256 << 10;
constexpr int64_t most_of_block = 8192, least_of_block = 16;  // elements; steps
constexpr int64_t most_beside = 64;                           // rows that are computed at once

class Normalize : public Operation {
  public:
    Normalize(const OperationKind &kind, const OperationTensors &tensors, TextReader &reader)
        : is_rms_(std::string(kind.variant) == "rms"),
          tensors_(tensors),
          axes_(read_axes(reader, tensors.inputs[0].shape.size())),
          epsilon_((reader.expect("-e"), reader.number("epsilon"))),
          behind_(tensors, reader) {
        OperationTensors own = tensors;
        own.inputs.resize(behind_.own());
        require_inputs(own, reader, 1, 3);
        require_alike(own, reader);
        require_floats(own, reader);
        std::vector<Loop> loops = loops_over(tensors.inputs[0], axes_);
        for (size_t i = 1; i < tensors.inputs.size(); i++) {
            const std::vector<int64_t> strides = broadcast_strides(tensors.inputs[i], tensors.output.shape, reader);
            for (size_t d = 0; d < loops.size(); d++) {
                loops[d].strides.push_back(strides[strides.size() - 1 - d]);
            }
        }
        loops_ = row_loops(loops);
        if (!is_rms_) {
            split_into_blocks();
        }
    }

    std::string parameters() const override { return print_axes(axes_) + "-e" + epsilon_.text + behind_.text(); }
    std::vector<int64_t> extents() const override { return extents_of(loops_); }

    Func build(const std::vector<Func> &inputs, const TargetModel &target) const override {
        const ElementType type = tensors_.output.type;
        const Halide::Type computed = compute_type(type);
        const int lanes = lanes_of(target, computed);
        const std::vector<Halide::Var> at = vars_of(loops_), kept = kept_of(loops_, at);
        const auto operand = [&](size_t i, const Exprs &step) {
            return element_at(inputs[i], tensors_.inputs[i].type, place_of(loops_, i, step));
        };
        const auto x = [&](const Exprs &step) { return operand(0, step); };
        Func mean("mean"), factor("factor"), out("out");
        const Moments moments = blocks_ > 0 ? moments_of_blocks(x, mean, lanes) : moments_of_rows(x, mean, lanes);
        const Expr count = make_const(computed, count_reduced(loops_));
        const Expr variance =
            strict::add(strict::div(moments.squares(exprs(kept)), count), make_const(computed, epsilon_.value));
        factor(kept) = strict::div(make_const(computed, 1), strict::sqrt(variance));
        Expr value =
            strict::mul(is_rms_ ? x(exprs(at)) : strict::sub(x(exprs(at)), mean(exprs(kept))), factor(exprs(kept)));
        for (size_t i = 1; i < behind_.own(); i++) {
            value = i == 1 ? strict::mul(value, operand(i, exprs(at))) : strict::add(value, operand(i, exprs(at)));
        }
        Exprs others;
        for (size_t i = behind_.own(); i < inputs.size(); i++) {
            others.push_back(operand(i, exprs(at)));
        }
        out(at) = store_element(type, behind_.of(value, others));
        Rows rows(loops_, lanes);
        rows.schedule_output(out, 8 + behind_.functions());
        if (blocks_ > 0) {
            rows.compute_blocks(moments.blocks, at[blocks_], {moments.sum_of_block, moments.squares_of_block});
        }
        if (!is_rms_) {
            rows.compute(moments.sum);
            rows.compute_of_row(mean);
        }
        rows.compute(moments.squares);
        rows.compute_of_row(factor);
        return out;
    }

  private:
    using Element = std::function<Expr(const Exprs &)>;

    // Sums over a row and of squares of what is less its mean; where there are blocks, theirs, and both of each block.
    struct Moments {
        Gathered sum, squares, sum_of_block, squares_of_block;
        Func blocks;
    };

    Moments moments_of_rows(const Element &x, Func mean, int lanes) const {
        const Halide::Type computed = compute_type(tensors_.output.type);
        Moments moments;
        if (!is_rms_) {
            moments.sum = gather("sum", loops_, gather_sum(computed), lanes, x);
            define_mean(mean, moments.sum);
        }
        moments.squares = gather("squares", loops_, gather_sum(computed), lanes, [&](const Exprs &step) {
            const Expr centred = is_rms_ ? x(step) : strict::sub(x(step), mean(kept_of(loops_, step)));
            return centred * centred;
        });
        return moments;
    }

    // The squares of what is less a row's mean: those of what is less its block's, and the blocks' means' own.
    Moments moments_of_blocks(const Element &x, Func mean, int lanes) const {
        const Halide::Type computed = compute_type(tensors_.output.type);
        std::vector<Loop> within = loops_, between;
        within[blocks_].reduced = false;
        for (size_t d = 0; d < loops_.size(); d++) {
            if (!within[d].reduced) {
                between.push_back(loops_[d]);
            }
        }
        const Expr size = make_const(computed, count_reduced(within));
        Moments moments;
        moments.sum_of_block = gather("block_sum", within, gather_sum(computed), lanes, x);
        const auto sum_of_block = moments.sum_of_block;
        moments.squares_of_block = gather("block_squares", within, gather_sum(computed), lanes, [&](const Exprs &step) {
            const Expr centred = strict::sub(x(step), strict::div(sum_of_block(kept_of(within, step)), size));
            return centred * centred;
        });
        Func blocks("blocks");
        const std::vector<Halide::Var> at = kept_of(within, vars_of(loops_));
        blocks(at) = Halide::Tuple(sum_of_block(exprs(at)), moments.squares_of_block(exprs(at)));
        moments.sum = gather("sum", between, gather_sum(computed), lanes,
                             [&](const Exprs &step) { return Halide::FuncRef(blocks(step))[0]; });
        define_mean(mean, moments.sum);
        moments.squares = gather("squares", between, gather_sum(computed), lanes, [&](const Exprs &step) {
            const Expr off =
                strict::sub(strict::div(Halide::FuncRef(blocks(step))[0], size), mean(kept_of(between, step)));
            return Halide::FuncRef(blocks(step))[1] + off * off * size;
        });
        moments.blocks = blocks;
        return moments;
    }

    void define_mean(Func mean, const Gathered &sum) const {
        const std::vector<Halide::Var> kept = kept_of(loops_, vars_of(loops_));
        mean(kept) =
            strict::div(sum(exprs(kept)), make_const(compute_type(tensors_.output.type), count_reduced(loops_)));
    }

    // Makes the longest of the loops over large rows two, of which the outer one is over blocks.
    void split_into_blocks() {
        size_t longest = 0;
        for (size_t d = 0; d < loops_.size(); d++) {
            if (loops_[d].reduced && (!loops_[longest].reduced || loops_[d].extent > loops_[longest].extent)) {
                longest = d;
            }
        }
        const int64_t count = count_reduced(loops_), extent = loops_[longest].extent;
        const int64_t beside = loops_[0].reduced ? 1 : std::min<int64_t>(loops_[0].extent, most_beside);
        if (!loops_[longest].reduced || count * beside * element_bytes(tensors_.output.type) <= most_kept_bytes) {
            return;
        }
        int64_t size = std::min(extent / 2, most_of_block / std::max<int64_t>(1, beside * (count / extent)));
        while (size >= least_of_block && extent % size != 0) {
            size--;
        }
        if (size < least_of_block) {
            return;
        }
        Loop outer = loops_[longest];
        loops_[longest].extent = size;
        outer.extent /= size;
        for (int64_t &stride : outer.strides) {
            stride *= size;
        }
        blocks_ = longest + 1;
        loops_.insert(loops_.begin() + static_cast<std::ptrdiff_t>(blocks_), outer);
    }

    bool is_rms_;
    OperationTensors tensors_;
    std::vector<int64_t> axes_;
    TextNumber epsilon_;
    Behind behind_;
    std::vector<Loop> loops_;
    size_t blocks_ = 0;  // the loop over blocks, 0 where there are none
};

}  // namespace

std::unique_ptr<const Operation> read_normalize(const OperationKind &kind, const OperationTensors &tensors,
                                                TextReader &reader) {
    return std::make_unique<const Normalize>(kind, tensors, reader);
}

}  // namespace kiln
