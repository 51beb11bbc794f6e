// Where a kernel's scratch lies in the caller's workspace.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

namespace kiln {

// Places blocks in the workspace, first fit; a block's place is free again after its Free.
class Workspace {
  public:
    static constexpr int64_t alignment = 64;
    static int64_t round_up(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

    int64_t allocate(const std::string &name, int64_t bytes) {
        bytes = round_up(bytes);
        int64_t at = 0;
        for (const auto &[begin, block] : live_) {
            if (begin - at >= bytes) {
                break;
            }
            at = begin + block.bytes;
        }
        live_[at] = {name, bytes};
        peak_ = std::max(peak_, at + bytes);
        return at;
    }
    void free(const std::string &name) {
        const auto it =
            std::find_if(live_.begin(), live_.end(), [&](const auto &entry) { return entry.second.name == name; });
        if (it != live_.end()) {
            live_.erase(it);
        }
    }
    int64_t peak() const { return peak_; }

  private:
    struct Block {
        std::string name;
        int64_t bytes;
    };
    std::map<int64_t, Block> live_;
    int64_t peak_ = 0;
};

}  // namespace kiln
