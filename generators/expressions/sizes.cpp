// Which number of a problem is which parameter.
#include "expressions/sizes.h"

#include <algorithm>

namespace kiln {
namespace {

using Halide::Expr;

constexpr const char *open_prefix = "open";

// The numbers of a problem with a distinct tag in each place, so that open_size_values() says what it takes from where.
Problem tagged(const Problem &problem) {
    Problem tags = problem;
    int64_t tag = 0;
    for (int64_t *number : {&tags.batch, &tags.in_channels, &tags.out_channels, &tags.groups, &tags.offset_groups,
                            &tags.x_zero_point, &tags.y_zero_point}) {
        *number = tag++;
    }
    for (Axes *axes : {&tags.in, &tags.out, &tags.kernel, &tags.stride, &tags.dilation, &tags.pad_begin}) {
        for (int64_t &number : *axes) {
            number = tag++;
        }
    }
    return tags;
}

// Reads a problem's numbers in turn.
class Reader {
  public:
    Reader(const Problem &problem, const std::vector<Expr> &open) : open_(open), next_(0) {
        open_size_values(problem, tagged(problem), values_);
        const int others = (problem.x_layout == Layout::open) + (problem.y_layout == Layout::open) +
                           (problem.open_epilogue ? open_epilogue_values : 0);
        numbers_ = open_sizes(problem) - others;
        next_ = numbers_;
    }

    Expr number(int64_t value, int64_t tag) const {
        if (value != open_size) {
            return static_cast<int>(value);
        }
        return open_[std::find(values_, values_ + numbers_, tag) - values_];
    }
    Expr next() { return open_[next_++]; }

  private:
    const std::vector<Expr> &open_;
    int64_t values_[max_open_sizes] = {};
    int numbers_ = 0, next_;
};

std::vector<Expr> variables(int count) {
    std::vector<Expr> result;
    for (int i = 0; i < count; i++) {
        result.push_back(Halide::Internal::Variable::make(Halide::Int(32), open_name(i)));
    }
    return result;
}

}  // namespace

std::string open_name(int i) {
    return open_prefix + std::to_string(i);
}

bool is_open_name(const std::string &name) {
    return name.starts_with(open_prefix);
}

bool is_one(const Expr &value) {
    return Halide::Internal::is_const_one(value);
}

std::array<Expr, 2> Sizes::w_channels(const OperatorTraits &traits) const {
    if (traits.has_input_channels_first()) {
        return {in_channels, out_of_group()};
    }
    return {out_channels, reduction_channels()};
}

Sizes::Sizes(const Problem &problem) : Sizes(problem, variables(open_sizes(problem))) {}

Sizes::Sizes(const Problem &problem, const std::vector<Expr> &open) {
    Reader reader(problem, open);
    const Problem tags = tagged(problem);
    batch = reader.number(problem.batch, tags.batch);
    in_channels = reader.number(problem.in_channels, tags.in_channels);
    out_channels = reader.number(problem.out_channels, tags.out_channels);
    groups = reader.number(problem.groups, tags.groups);
    offset_groups = reader.number(problem.offset_groups, tags.offset_groups);
    x_zero_point = reader.number(problem.x_zero_point, tags.x_zero_point);
    y_zero_point = reader.number(problem.y_zero_point, tags.y_zero_point);
    for (int axis = problem.rank - 1; axis >= 0; axis--) {
        in.push_back(reader.number(problem.in[axis], tags.in[axis]));
        out.push_back(reader.number(problem.out[axis], tags.out[axis]));
        kernel.push_back(reader.number(problem.kernel[axis], tags.kernel[axis]));
        stride.push_back(reader.number(problem.stride[axis], tags.stride[axis]));
        dilation.push_back(reader.number(problem.dilation[axis], tags.dilation[axis]));
        pad_begin.push_back(reader.number(problem.pad_begin[axis], tags.pad_begin[axis]));
    }
    const auto flag = [](bool value) {
        return value ? Halide::Internal::const_true() : Halide::Internal::const_false();
    };
    x_is_nxc = problem.x_layout == Layout::open ? reader.next() == 1 : flag(problem.x_layout == Layout::nxc);
    y_is_nxc = problem.y_layout == Layout::open ? reader.next() == 1 : flag(problem.y_layout == Layout::nxc);
    if (!problem.open_epilogue) {
        has_bias = flag(problem.bias);
        has_residual = flag(problem.residual);
        has_mask = flag(problem.mask);
        return;
    }
    has_bias = reader.next() != 0;
    has_residual = reader.next() != 0;
    has_mask = reader.next() != 0;
    const Expr number = reader.next(), a = reader.next(), b = reader.next();
    activation = {number, Halide::reinterpret<float>(a), Halide::reinterpret<float>(b)};
}

}  // namespace kiln
