#include "layers/suggest.h"

#include "gtest/gtest.h"

namespace kiln::tools {
namespace {

TEST(Suggest, EditDistanceCountsLetters) {
    EXPECT_EQ(edit_distance("", ""), 0u);
    EXPECT_EQ(edit_distance("", "pads"), 4u);
    EXPECT_EQ(edit_distance("strides", "stride"), 1u);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
    EXPECT_EQ(edit_distance("PADS", "pads"), 0u);
}

TEST(Suggest, NearestName) {
    const std::vector<std::string_view> names = {"strides", "pads", "dilations", "group"};
    EXPECT_EQ(nearest_name("stride", names), "strides");
    EXPECT_EQ(nearest_name("padding", names), "pads");
    EXPECT_EQ(nearest_name("groups", names), "group");
    EXPECT_EQ(nearest_name("x", std::vector<std::string_view>{}), "");
}

}  // namespace
}  // namespace kiln::tools
