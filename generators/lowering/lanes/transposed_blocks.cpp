// Transposing blocks by shuffles of two vectors each.
#include "lowering/lanes/transposed_blocks.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

constexpr int rows = 16;  // that are interleaved: lanes of a vector of the result

class TransposeByPairs : public IRMutator {
  protected:
    using IRMutator::visit;

    Stmt visit(const Allocate *op) override {
        // Where the block becomes rows of y, stores wait for each other the longer the denser they come: 3x3 of 32 to
        // 128 channels at 27x27 by Winograd takes .16 ms in place of .13, and 256 channels at 28x28 1.44 of 1.40.
        if (stores_to_y(op->body)) {
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
        lets_.clear();
        const std::vector<Expr> columns = transposed(shuffle->vectors);
        std::vector<Stmt> stores;
        for (size_t i = 0; i < columns.size(); i++) {
            const Expr base = simplify(ramp->base + static_cast<int>(i) * rows);
            stores.push_back(Store::make(op->name, columns[i], Ramp::make(base, 1, rows), op->param, const_true(rows),
                                         ModulusRemainder()));
        }
        Stmt result = Block::make(stores);
        for (size_t let = lets_.size(); let-- > 0;) {
            result = LetStmt::make(lets_[let].first, lets_[let].second, result);
        }
        return result;
    }

  private:
    std::set<std::string> left_;  // blocks that are left as they are
    std::vector<std::pair<std::string, Expr>> lets_;
    int number_ = 0;

    // A vector whose lane i is of the row and the column that `places[i]` tells.
    struct Vector {
        Expr value;
        std::vector<std::pair<int, int>> places;
    };

    static bool stores_to_y(const Stmt &statement) {
        class Visitor : public IRVisitor {
          public:
            bool stores = false;

          protected:
            using IRVisitor::visit;
            void visit(const Store *op) override { stores = stores || op->name.substr(0, op->name.find('$')) == "y"; }
        } visitor;
        statement.accept(&visitor);
        return visitor.stores;
    }

    static bool is_block(const Shuffle &shuffle) {
        const Halide::Type type = shuffle.vectors[0].type();
        const int columns = type.lanes();
        return shuffle.is_interleave() && shuffle.vectors.size() == rows && type.bits() == 32 && columns > 1 &&
               columns <= rows && (columns & (columns - 1)) == 0;
    }

    Expr named(const Expr &value) {
        lets_.emplace_back("transposed_" + std::to_string(number_++), value);
        return Variable::make(value.type(), lets_.back().first);
    }

    // The lanes of two vectors whose columns have a bit, or have it not, the lowest column first.
    Vector half(const Vector &a, const Vector &b, int bit, bool set) {
        std::vector<std::pair<std::pair<int, int>, int>> lanes;  // column, row: lane
        for (int i = 0; i < rows; i++) {
            for (const auto &[of, first] : {std::pair(&a, 0), std::pair(&b, rows)}) {
                const auto [row, column] = of->places[i];
                if (((column >> bit & 1) != 0) == set) {
                    lanes.push_back({{column, row}, first + i});
                }
            }
        }
        std::sort(lanes.begin(), lanes.end());
        Vector result;
        std::vector<int> indices;
        for (const auto &[place, lane] : lanes) {
            result.places.emplace_back(place.second, place.first);
            indices.push_back(lane);
        }
        result.value = named(Shuffle::make({a.value, b.value}, indices));
        return result;
    }

    // Vectors of whole rows, several where those are short. Then each bit of a vector's number, which is one of its
    // rows', becomes one of its columns', by which two vectors exchange halves.
    std::vector<Expr> transposed(const std::vector<Expr> &values) {
        const int columns = values[0].type().lanes();
        std::vector<Vector> vectors(columns);
        for (int i = 0; i < columns; i++) {
            std::vector<Expr> parts;
            for (int row = i; row < rows; row += columns) {
                parts.push_back(values[row]);
                for (int column = 0; column < columns; column++) {
                    vectors[i].places.emplace_back(row, column);
                }
            }
            vectors[i].value = named(parts.size() == 1 ? parts[0] : Shuffle::make_concat(parts));
        }
        for (int bit = 0; 1 << bit < columns; bit++) {
            for (int i = 0; i < columns; i++) {
                const int other = i | 1 << bit;
                if (other != i) {
                    Vector without = half(vectors[i], vectors[other], bit, false);
                    vectors[other] = half(vectors[i], vectors[other], bit, true);
                    vectors[i] = std::move(without);
                }
            }
        }
        std::vector<Expr> result;
        for (const Vector &vector : vectors) {
            result.push_back(vector.value);
        }
        return result;
    }
};

}  // namespace

Stmt transpose_by_pairs(const Stmt &statement) {
    return TransposeByPairs().mutate(statement);
}

}  // namespace kiln
