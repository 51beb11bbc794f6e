// Transposing blocks by shuffles of two vectors each.
#include "lowering/lanes/transposed_blocks.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "expressions/lets.h"
#include "lowering/func_names.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

constexpr int most_rows = 64;

int log2(int power) {
    return std::countr_zero(static_cast<unsigned>(power));
}

// A vector whose lane i is of the row and the column that `places[i]` tells.
struct Vector {
    Expr value;
    std::vector<std::pair<int, int>> places;
};

// Transposes a block whose rows are as many as a register has lanes, and whose columns are no more than those.
//
// Each bit of a row's number becomes one of a lane's, the lowest first. There are three ways to it: two rows that are
// shorter than a part of a register are interleaved; two vectors exchange halves, by a bit of their columns that
// becomes one of their number; and the parts of a register, of 128 bits, are put side by side. Halves are exchanged
// within the parts as long as that will do, by what is one instruction of any processor.
class Transposition {
  public:
    // Shuffles are given names, by `lets`.
    Transposition(const std::vector<Expr> &rows, Lets &lets)
        : columns_(rows[0].type().lanes()),
          lanes_of_part_(std::min<int>(128 / rows[0].type().bits(), static_cast<int>(rows.size()))),
          lets_(lets) {
        for (size_t row = 0; row < rows.size(); row++) {
            vectors_.push_back({rows[row], {}});
            for (int column = 0; column < columns_; column++) {
                vectors_.back().places.emplace_back(static_cast<int>(row), column);
            }
        }
    }

    std::vector<Expr> columns() {
        while (vectors_[0].value.type().lanes() < lanes_of_part_) {
            interleave_neighbours();
        }
        put_side_by_side();
        const int bits = log2(columns_), inside = std::min(bits, log2(lanes_of_part_));
        std::vector<int> column_bits;  // that each bit of a vector's number becomes
        for (int bit = 0; bit < bits; bit++) {
            column_bits.push_back(bit < inside ? inside - 1 - bit : bit);
            for (int i = 0; i < columns_; i++) {
                const int other = i | 1 << bit;
                if (other != i) {
                    Vector without = half(vectors_[i], vectors_[other], column_bits[bit], false, bit < inside);
                    vectors_[other] = half(vectors_[i], vectors_[other], column_bits[bit], true, bit < inside);
                    vectors_[i] = std::move(without);
                }
            }
        }
        std::vector<Expr> result(columns_);
        for (int i = 0; i < columns_; i++) {
            int column = 0;
            for (int bit = 0; bit < bits; bit++) {
                column |= (i >> bit & 1) << column_bits[bit];
            }
            result[column] = vectors_[i].value;
        }
        return result;
    }

  private:
    const int columns_, lanes_of_part_;
    Lets &lets_;
    std::vector<Vector> vectors_;

    Expr named(const Expr &value) {
        lets_.emplace_back("transposed_" + std::to_string(lets_.size()), value);
        return Variable::make(value.type(), lets_.back().first);
    }

    void interleave_neighbours() {
        std::vector<Vector> pairs(vectors_.size() / 2);
        for (size_t i = 0; i < pairs.size(); i++) {
            const Vector &a = vectors_[2 * i], &b = vectors_[2 * i + 1];
            for (size_t lane = 0; lane < a.places.size(); lane++) {
                pairs[i].places.insert(pairs[i].places.end(), {a.places[lane], b.places[lane]});
            }
            pairs[i].value = named(Shuffle::make_interleave({a.value, b.value}));
        }
        vectors_ = std::move(pairs);
    }

    // As many vectors as there are columns.
    void put_side_by_side() {
        std::vector<Vector> wide(columns_);
        for (int i = 0; i < columns_; i++) {
            std::vector<Expr> parts;
            for (size_t part = i; part < vectors_.size(); part += columns_) {
                parts.push_back(vectors_[part].value);
                wide[i].places.insert(wide[i].places.end(), vectors_[part].places.begin(), vectors_[part].places.end());
            }
            wide[i].value = named(parts.size() == 1 ? parts[0] : Shuffle::make_concat(parts));
        }
        vectors_ = std::move(wide);
    }

    // The lanes of two vectors whose columns have a bit, or have it not, the lowest column first, in each part of a
    // register by itself or in all of them.
    Vector half(const Vector &a, const Vector &b, int bit, bool set, bool by_parts) {
        struct Lane {
            int part, column, row, from;
            auto place() const { return std::tuple(part, column, row); }
        };
        const int size = static_cast<int>(a.places.size());
        std::vector<Lane> lanes;
        for (int i = 0; i < size; i++) {
            for (const auto &[of, first] : {std::pair(&a, 0), std::pair(&b, size)}) {
                const auto [row, column] = of->places[i];
                if (((column >> bit & 1) != 0) == set) {
                    lanes.push_back({by_parts ? i / lanes_of_part_ : 0, column, row, first + i});
                }
            }
        }
        std::sort(lanes.begin(), lanes.end(), [](const Lane &x, const Lane &y) { return x.place() < y.place(); });
        Vector result;
        std::vector<int> indices;
        for (const Lane &lane : lanes) {
            result.places.emplace_back(lane.row, lane.column);
            indices.push_back(lane.from);
        }
        result.value = named(Shuffle::make({a.value, b.value}, indices));
        return result;
    }
};

class TransposeByPairs : public IRMutator {
  public:
    TransposeByPairs(int vector_bits, bool leaves_y) : vector_bits_(vector_bits), leaves_y_(leaves_y) {}

  protected:
    using IRMutator::visit;

    Stmt visit(const Allocate *op) override {
        if (leaves_y_ && op->type.bits() == 32 && stores_to_y(op->body)) {
            left_.insert(op->name);
        }
        return IRMutator::visit(op);
    }

    Stmt visit(const Store *op) override {
        const auto *shuffle = op->value.as<Shuffle>();
        const auto *ramp = op->index.as<Ramp>();
        if (left_.contains(op->name) || shuffle == nullptr || ramp == nullptr || !is_const_one(ramp->stride) ||
            !is_const_one(op->predicate) || !is_block(*shuffle)) {
            return op;
        }
        const size_t first_let = lets_.size();
        const std::vector<Expr> columns = transposed(shuffle->vectors);
        std::vector<Stmt> stores;
        const int rows = static_cast<int>(shuffle->vectors.size());
        for (size_t i = 0; i < columns.size(); i++) {
            const Expr base = simplify(ramp->base + static_cast<int>(i) * rows);
            stores.push_back(Store::make(op->name, columns[i], Ramp::make(base, 1, rows), op->param, const_true(rows),
                                         ModulusRemainder()));
        }
        return within_lets(Block::make(stores), lets_, first_let);
    }

  private:
    const int vector_bits_;
    const bool leaves_y_;
    std::set<std::string> left_;  // blocks that are left as they are
    Lets lets_;                   // of all blocks so far, so that no two have one name

    static bool stores_to_y(const Stmt &statement) {
        class Visitor : public IRVisitor {
          public:
            bool stores = false;

          protected:
            using IRVisitor::visit;
            void visit(const Store *op) override { stores = stores || is_of_func(op->name, "y"); }
        } visitor;
        statement.accept(&visitor);
        return visitor.stores;
    }

    static bool is_block(const Shuffle &shuffle) {
        const Halide::Type type = shuffle.vectors[0].type();
        const int columns = type.lanes(), rows = static_cast<int>(shuffle.vectors.size());
        return shuffle.is_interleave() && type.bits() >= 8 && columns > 1 && rows >= columns && rows <= most_rows &&
               std::has_single_bit(static_cast<unsigned>(columns)) && std::has_single_bit(static_cast<unsigned>(rows));
    }

    // As many rows at a time as a register has lanes, and as many columns.
    std::vector<Expr> transposed(const std::vector<Expr> &values) {
        const Halide::Type type = values[0].type();
        const Halide::Type bits = type.with_code(halide_type_uint);  // LLVM has not all shuffles of 16-bit floats
        const int rows = std::min<int>(static_cast<int>(values.size()), vector_bits_ / type.bits());
        const int columns = std::min(type.lanes(), rows);
        std::vector<Expr> result;
        for (int first_column = 0; first_column < type.lanes(); first_column += columns) {
            std::vector<std::vector<Expr>> parts(columns);
            for (size_t first = 0; first < values.size(); first += rows) {
                std::vector<Expr> block;
                for (int row = 0; row < rows; row++) {
                    const Expr value = Halide::reinterpret(bits, values[first + row]);
                    block.push_back(columns == type.lanes() ? value
                                                            : Shuffle::make_slice(value, first_column, 1, columns));
                }
                const std::vector<Expr> of_block = Transposition(block, lets_).columns();
                for (int column = 0; column < columns; column++) {
                    parts[column].push_back(of_block[column]);
                }
            }
            for (const std::vector<Expr> &column : parts) {
                result.push_back(Halide::reinterpret(type.with_lanes(static_cast<int>(values.size())),
                                                     Shuffle::make_concat(column)));
            }
        }
        return result;
    }
};

}  // namespace

Stmt transpose_by_pairs(const Stmt &statement, int vector_bits, bool leaves_y) {
    return TransposeByPairs(vector_bits, leaves_y).mutate(statement);
}

}  // namespace kiln
