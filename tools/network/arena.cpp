#include "network/arena.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>

namespace kiln::tools {
namespace {

int64_t round_up(int64_t bytes, int64_t alignment) {
    return (bytes + alignment - 1) / alignment * alignment;
}

bool meet(const ArenaBlock &a, const ArenaBlock &b) {
    return a.first <= b.last && b.first <= a.last;
}

int64_t largest_sum(const std::vector<ArenaBlock> &blocks) {
    std::map<int, int64_t> changes;  // at the beginning of a step
    for (const ArenaBlock &block : blocks) {
        changes[block.first] += block.bytes;
        changes[block.last + 1] -= block.bytes;
    }
    int64_t sum = 0, most = 0;
    for (const auto &[step, change] : changes) {
        sum += change;
        most = std::max(most, sum);
    }
    return most;
}

// Places blocks one after the other, in some order, where those that are placed leave room.
class Placer {
  public:
    explicit Placer(const std::vector<ArenaBlock> &blocks) : blocks_(blocks), neighbours_(blocks.size()) {
        for (size_t a = 0; a < blocks.size(); a++) {
            for (size_t b = 0; b < a; b++) {
                if (blocks[a].bytes > 0 && blocks[b].bytes > 0 && meet(blocks[a], blocks[b])) {
                    neighbours_[a].push_back(b);
                    neighbours_[b].push_back(a);
                }
            }
        }
    }

    // Of blocks that live at once: what placing them all takes.
    size_t pairs() const {
        return std::accumulate(neighbours_.begin(), neighbours_.end(), size_t{0},
                               [](size_t sum, const std::vector<size_t> &others) { return sum + others.size(); });
    }

    // `best_fit`: in the smallest gap that is large enough, else in the lowest.
    ArenaPlan place(const std::vector<size_t> &order, bool best_fit) const {
        ArenaPlan plan;
        plan.offsets.assign(blocks_.size(), 0);
        std::vector<bool> is_placed(blocks_.size());
        std::vector<std::pair<int64_t, int64_t>> taken;  // begin and end
        for (const size_t block : order) {
            taken.clear();
            for (const size_t other : neighbours_[block]) {
                if (is_placed[other]) {
                    taken.emplace_back(plan.offsets[other], plan.offsets[other] + blocks_[other].bytes);
                }
            }
            std::sort(taken.begin(), taken.end());
            plan.offsets[block] = gap(taken, blocks_[block].bytes, best_fit);
            plan.bytes = std::max(plan.bytes, plan.offsets[block] + blocks_[block].bytes);
            is_placed[block] = true;
        }
        return plan;
    }

  private:
    static int64_t gap(const std::vector<std::pair<int64_t, int64_t>> &taken, int64_t bytes, bool best_fit) {
        int64_t at = 0, best = -1, best_size = INT64_MAX;
        for (const auto &[begin, end] : taken) {
            const int64_t size = begin - at;
            if (size >= bytes && size < best_size) {
                best = at;
                best_size = best_fit ? size : 0;
            }
            at = std::max(at, end);
        }
        return best >= 0 ? best : at;
    }

    const std::vector<ArenaBlock> &blocks_;
    std::vector<std::vector<size_t>> neighbours_;
};

// By what the first blocks to be placed are chosen.
struct Priority {
    const char *name;
    std::function<double(const ArenaBlock &)> value;  // the largest first
};

const std::vector<Priority> &priorities() {
    static const std::vector<Priority> all = {
        {"by size", [](const ArenaBlock &b) { return static_cast<double>(b.bytes); }},
        {"by lifetime", [](const ArenaBlock &b) { return static_cast<double>(b.last - b.first); }},
        {"by area", [](const ArenaBlock &b) { return static_cast<double>(b.bytes) * (b.last - b.first + 1); }},
        {"by first use", [](const ArenaBlock &b) { return -static_cast<double>(b.first); }},
        {"by last use", [](const ArenaBlock &b) { return static_cast<double>(b.last); }}};
    return all;
}

std::vector<size_t> sorted(const std::vector<ArenaBlock> &blocks, const Priority &priority) {
    std::vector<size_t> order;
    for (size_t block = 0; block < blocks.size(); block++) {
        if (blocks[block].bytes > 0) order.push_back(block);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        const double first = priority.value(blocks[a]), second = priority.value(blocks[b]);
        return first != second ? first > second : blocks[a].bytes > blocks[b].bytes;
    });
    return order;
}

// Changes the best order at random, a little, as long as that may still gain something.
void improve(const Placer &placer, std::vector<size_t> order, bool best_fit, ArenaPlan *best) {
    constexpr size_t work = 40'000'000;  // less than a second
    const size_t tries = std::min<size_t>(20000, work / (placer.pairs() + order.size() + 1));
    std::mt19937 random(1);
    for (size_t i = 0; i < tries && best->bytes > best->bound; i++) {
        std::vector<size_t> changed = order;
        const size_t from = random() % changed.size(), to = random() % changed.size();
        const size_t block = changed[from];
        changed.erase(changed.begin() + static_cast<std::ptrdiff_t>(from));
        changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(to), block);
        ArenaPlan plan = placer.place(changed, best_fit);
        if (plan.bytes <= best->bytes) {
            order = changed;
            if (plan.bytes < best->bytes) {
                plan.bound = best->bound;
                plan.planner = best->planner.ends_with("improved") ? best->planner : best->planner + ", improved";
                *best = plan;
            }
        }
    }
}

std::vector<ArenaBlock> rounded(std::vector<ArenaBlock> blocks, int64_t alignment) {
    for (ArenaBlock &block : blocks) {
        block.bytes = round_up(block.bytes, alignment);
    }
    return blocks;
}

}  // namespace

ArenaPlan plan_arena(const std::vector<ArenaBlock> &asked, int64_t alignment) {
    const std::vector<ArenaBlock> blocks = rounded(asked, alignment);
    const Placer placer(blocks);
    ArenaPlan best;
    best.bytes = INT64_MAX;
    std::vector<size_t> best_order;
    bool best_fits = false;
    for (const Priority &priority : priorities()) {
        const std::vector<size_t> order = sorted(blocks, priority);
        for (const bool best_fit : {false, true}) {
            ArenaPlan plan = placer.place(order, best_fit);
            if (plan.bytes < best.bytes) {
                plan.planner = std::string(priority.name) + (best_fit ? ", best fit" : ", first fit");
                best = plan;
                best_order = order;
                best_fits = best_fit;
            }
        }
    }
    best.bound = largest_sum(blocks);
    if (!best_order.empty()) {
        improve(placer, best_order, best_fits, &best);
    }
    return best;
}

ArenaPlan keep_all(const std::vector<ArenaBlock> &blocks, int64_t alignment) {
    ArenaPlan plan;
    for (const ArenaBlock &block : rounded(blocks, alignment)) {
        plan.offsets.push_back(plan.bytes);
        plan.bytes += block.bytes;
    }
    plan.bound = largest_sum(rounded(blocks, alignment));
    plan.planner = "all kept";
    return plan;
}

}  // namespace kiln::tools
