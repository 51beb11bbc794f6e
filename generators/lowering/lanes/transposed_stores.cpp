// Transposing what a tile stores: four positions at a time within the parts of registers, of 128 bits, and then by
// parts.
#include "lowering/lanes/transposed_stores.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "expressions/lets.h"
#include "lowering/func_names.h"
#include "lowering/stores.h"

namespace kiln {
namespace {

using namespace Halide::Internal;
using Halide::Expr;

constexpr int lanes_of_part = 4, least_positions = 3;

// What shuffles are called, ahead of the stores that need them.
class Names {
  public:
    Expr of(const Expr &value) {
        lets_.emplace_back(unique_name("transposed"), value);
        return Variable::make(value.type(), lets_.back().first);
    }

    Stmt around(const Stmt &stores) const { return within_lets(stores, lets_); }

  private:
    Lets lets_;
};

// Of every `of` runs of lanes of two vectors those from the first on, `count` of them, one vector's and the other's by
// turns.
Expr interleave_runs(Names &names, const Expr &a, const Expr &b, int run, int of, int first, int count) {
    const int lanes = a.type().lanes();
    std::vector<int> indices;
    for (int together = 0; together < lanes; together += of * run) {
        for (int at = together + first * run; at < together + (first + count) * run; at += run) {
            for (const int vector : {0, lanes}) {
                for (int i = 0; i < run; i++) {
                    indices.push_back(vector + at + i);
                }
            }
        }
    }
    return names.of(Shuffle::make({a, b}, indices));
}

// The rows of positions of a vector's channels, of which channel c is row c / 4 of lane c % 4 of parts: vectors of
// several rows each, as many as there is room for.
using Rows = std::array<std::vector<Expr>, lanes_of_part>;

// Of four positions.
Rows transpose_parts(Names &names, const std::vector<Expr> &positions, size_t first) {
    std::array<Expr, 4> pairs;  // of the first two positions and the last two, of each half of a part
    for (const int i : {0, 1, 2, 3}) {
        const size_t of = first + 2 * (i % 2);
        pairs[i] = interleave_runs(names, positions[of], positions[of + 1], 1, 4, i / 2 * 2, 2);
    }
    Rows rows;
    for (const int lane : {0, 1, 2, 3}) {
        rows[lane] = {interleave_runs(names, pairs[lane / 2 * 2], pairs[lane / 2 * 2 + 1], 2, 2, lane % 2, 1)};
    }
    return rows;
}

// Of twice as many positions each, of so many that two have: half as many rows a vector.
Rows join(Names &names, const Rows &a, const Rows &b, int length) {
    const int of_vector = a[0][0].type().lanes() / length;
    Rows rows;
    for (size_t lane = 0; lane < rows.size(); lane++) {
        for (size_t v = 0; v < a[lane].size(); v++) {
            for (const int half : {0, 1}) {
                rows[lane].push_back(interleave_runs(names, a[lane][v], b[lane][v], length, of_vector,
                                                     half * of_vector / 2, of_vector / 2));
            }
        }
    }
    return rows;
}

// Of a power of two of positions, at least four and no more than there are lanes.
Rows transpose(Names &names, const std::vector<Expr> &positions) {
    std::vector<Rows> parts;
    for (size_t first = 0; first < positions.size(); first += lanes_of_part) {
        parts.push_back(transpose_parts(names, positions, first));
    }
    for (int length = lanes_of_part; parts.size() > 1; length *= 2) {
        for (size_t i = 0; i < parts.size() / 2; i++) {
            parts[i] = join(names, parts[2 * i], parts[2 * i + 1], length);
        }
        parts.resize(parts.size() / 2);
    }
    return parts[0];
}

class TransposeStores : public IRMutator {
  public:
    explicit TransposeStores(bool masks) : masks_(masks) {}

  protected:
    using IRMutator::visit;

    Stmt visit(const Block *op) override {
        std::vector<Stmt> all, result;
        flatten_block(op, is_strided, all);
        for (size_t i = 0; i < all.size();) {
            size_t end = i;
            while (end < all.size() && is_strided(all[end]) && is_alike(all[i], all[end])) {
                end++;
            }
            if (end - i < least_positions) {
                result.push_back(mutate(all[i++]));
            } else {
                for (const std::vector<Stmt> &stores : at_known_distances({all.begin() + i, all.begin() + end})) {
                    transpose_run(stores, result);
                }
                i = end;
            }
        }
        return Block::make(result);
    }

  private:
    const bool masks_;

    // Whether a statement stores a vector to y by steps.
    static bool is_strided(const Stmt &statement) {
        const auto *store = statement.as<Store>();
        const auto *ramp = store == nullptr ? nullptr : store->index.as<Ramp>();
        if (ramp == nullptr || !ramp->base.type().is_scalar() || is_const_one(ramp->stride) ||
            !is_const_one(store->predicate) || !is_of_func(store->name, "y")) {
            return false;
        }
        const Halide::Type type = store->value.type();
        return type.bits() == 32 && type.lanes() >= lanes_of_part &&
               std::has_single_bit(static_cast<unsigned>(type.lanes()));
    }

    static const Ramp &index_of(const Stmt &store) { return *store.as<Store>()->index.as<Ramp>(); }

    static std::optional<int64_t> distance(const Stmt &from, const Stmt &to) {
        const Expr difference = simplify(index_of(to).base - index_of(from).base);
        const auto constant = as_const_int(difference);
        return constant ? std::optional<int64_t>(*constant) : std::nullopt;
    }

    static bool is_alike(const Stmt &first, const Stmt &other) {
        return first.as<Store>()->name == other.as<Store>()->name &&
               first.as<Store>()->value.type() == other.as<Store>()->value.type() &&
               equal(index_of(first).stride, index_of(other).stride);
    }

    // Together what a constant is between: rows and vectors of channels are numbers apart that a run says, where y is a
    // part of an image.
    static std::vector<std::vector<Stmt>> at_known_distances(const std::vector<Stmt> &stores) {
        std::vector<std::vector<Stmt>> together;
        for (const Stmt &store : stores) {
            const auto with = std::find_if(together.begin(), together.end(), [&](const std::vector<Stmt> &others) {
                return distance(others[0], store).has_value();
            });
            if (with == together.end()) {
                together.push_back({store});
            } else {
                with->push_back(store);
            }
        }
        return together;
    }

    // Stores that are parts of one tile, vector by vector of its channels.
    void transpose_run(const std::vector<Stmt> &stores, std::vector<Stmt> &result) const {
        std::map<int64_t, Stmt> by_place;
        for (const Stmt &store : stores) {
            by_place[*distance(stores[0], store)] = store;
        }
        if (by_place.size() != stores.size()) {  // one stores over another
            result.insert(result.end(), stores.begin(), stores.end());
            return;
        }
        std::vector<Stmt> neighbours;
        int64_t last = 0;
        for (const auto &[place, store] : by_place) {
            if (!neighbours.empty() && place != last + 1) {
                transpose_neighbours(neighbours, result);
                neighbours.clear();
            }
            neighbours.push_back(store);
            last = place;
        }
        transpose_neighbours(neighbours, result);
    }

    // As many of a row's positions at a time as there are lanes.
    void transpose_neighbours(const std::vector<Stmt> &stores, std::vector<Stmt> &result) const {
        const size_t lanes = stores[0].as<Store>()->value.type().lanes();
        for (size_t first = 0; first < stores.size();) {
            const size_t left = std::min(stores.size() - first, lanes);
            const size_t least = masks_ ? least_positions : lanes_of_part;
            const size_t count = masks_ || left < least ? left : std::bit_floor(left);
            const std::vector<Stmt> block = {stores.begin() + first, stores.begin() + first + count};
            if (count >= least) {
                result.push_back(transpose_block(block));
            } else {
                result.insert(result.end(), block.begin(), block.end());
            }
            first += count;
        }
    }

    static Stmt transpose_block(const std::vector<Stmt> &stores) {
        Names names;
        std::vector<Expr> positions;
        for (const Stmt &store : stores) {
            positions.push_back(names.of(store.as<Store>()->value));
        }
        const int count = static_cast<int>(stores.size()),
                  length = std::max<int>(std::bit_ceil(stores.size()), lanes_of_part);
        positions.resize(length, positions.back());
        const Rows rows = transpose(names, positions);
        const auto *store = stores[0].as<Store>();
        const Ramp &index = index_of(stores[0]);
        const int of_vector = index.lanes / length;
        std::vector<Stmt> result;
        for (int channel = 0; channel < index.lanes; channel++) {
            const int row = channel / lanes_of_part;
            const Expr &vector = rows[channel % lanes_of_part][row / of_vector];
            const Expr value =
                of_vector == 1 ? vector : Shuffle::make_slice(vector, row % of_vector * length, 1, length);
            const Expr first = simplify(index.base + channel * index.stride);
            const Expr all = Ramp::make(make_zero(Halide::Int(32)), make_one(Halide::Int(32)), length);
            const Expr mask = count == length ? const_true(length) : all < Broadcast::make(count, length);
            result.push_back(
                Store::make(store->name, value, Ramp::make(first, 1, length), store->param, mask, ModulusRemainder()));
        }
        return names.around(Block::make(result));
    }
};

}  // namespace

Stmt transpose_stores(const Stmt &statement, bool masks) {
    return TransposeStores(masks).mutate(statement);
}

}  // namespace kiln
