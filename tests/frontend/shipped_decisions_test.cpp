// The decisions that come with Kiln are of its algorithms as they are now.
#include <fstream>

#include "../parsed.h"
#include "library/decisions.h"
#include "nlohmann/json.hpp"
#include "targets/target_model.h"
#include "testing.h"

namespace kiln::tools {
namespace {

TEST(ShippedDecisions, none_is_refused) {
    for (const std::string path : {KILN_ROOT "/bench/decisions.jsonl", KILN_ROOT "/tools/demo/decisions.jsonl"}) {
        const Decisions decisions(path);
        std::ifstream file(path);
        int number = 0;
        for (std::string line; std::getline(file, line);) {
            const auto entry = nlohmann::json::parse(line);
            std::vector<std::string> warnings;
            std::string origin;
            const Decision decision =
                decisions.decide(parsed(entry.at("problem")), find_target(entry.at("target")), &warnings, &origin);
            EXPECT_THAT(warnings, testing::IsEmpty());
            EXPECT_EQ(decision.schedule, entry.at("schedule"));
            EXPECT_THAT(origin, testing::StartsWith(path + ":" + std::to_string(++number)));
        }
        EXPECT_GT(number, 0) << path;
    }
}

}  // namespace
}  // namespace kiln::tools
