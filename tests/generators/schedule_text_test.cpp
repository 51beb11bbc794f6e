// Schedules' texts.
#include "algorithms/schedule_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "algorithms/depthwise/schedule.h"
#include "algorithms/direct/schedule.h"

namespace kiln {
namespace {

struct Numbers {
    int a = 0, b = 0, c = 0;
    bool d = false;

    void list(ScheduleText &text) {
        text.number("a", a);
        text.number("b", b, 1, 64);
        text.optional("c", c, 5);
        text.flag("d", d);
    }
};

std::string error_of(const std::string &text) {
    try {
        parse_schedule<Numbers>(text);
    } catch (const std::invalid_argument &error) {
        return error.what();
    }
    return "";
}

TEST(ScheduleText, reads_each_number_once) {
    const Numbers numbers = parse_schedule<Numbers>("b:2;d:1;a:10;c:3");
    EXPECT_EQ(numbers.a, 10);
    EXPECT_EQ(numbers.b, 2);
    EXPECT_EQ(numbers.c, 3);
    EXPECT_TRUE(numbers.d);
}

TEST(ScheduleText, prints_in_the_order_of_the_list) {
    EXPECT_EQ(print_schedule(parse_schedule<Numbers>("d:7;c:3;b:2;a:1")), "a:1;b:2;c:3;d:1");
}

TEST(ScheduleText, knows_what_older_texts_lack) {
    EXPECT_EQ(parse_schedule<Numbers>("a:1;b:2;d:0").c, 5);
}

TEST(ScheduleText, names_what_is_wrong) {
    const std::pair<const char *, const char *> cases[] = {{"a:1;d:0", "lacks \"b\""},
                                                           {"a:1;b:2;e:3", "\"e:3\""},
                                                           {"a:1;a:2;b:1", "\"a\" is given twice"},
                                                           {"a:x;b:1", "\"a:x\""},
                                                           {"a:-1;b:1", "\"a:-1\""},
                                                           {"a;b:1", "\"a\""},
                                                           {"a:;b:1", "\"a:\""},
                                                           {"a:99999999999;b:1", "\"a:99999999999\""},
                                                           {"a:1;b:0;d:0", "\"b\" must be 1 to 64"},
                                                           {"a:1;b:65;d:0", "\"b\" must be 1 to 64"}};
    for (const auto &[text, part] : cases) {
        EXPECT_THAT(error_of(text), testing::HasSubstr(part)) << text;
    }
}

// Each kind of tile.
TEST(DirectSchedule, prints_what_it_parses) {
    const std::string numbers = ";rows:1;unroll:4;dot_width:1;panels_outside:0;parallel:0;chunk:7;";
    for (const std::string &text :
         {"lanes:16;vectors:2;pixels:14" + numbers +
              "channels:0;flattened_rows:0;prefetch_distance:0;panels_of_groups:0;transposed_"
              "x:0;partial_sums:1;prefetch_panels:0;tiles_outside:0;prefetch_output:0;joined_taps:0;copied_planes:0;"
              "row_block:0;interleaved_groups:0",
          "lanes:16;vectors:2;pixels:14" + numbers +
              "channels:0;flattened_rows:0;prefetch_distance:0;panels_of_groups:1;transposed_"
              "x:1;partial_sums:4;prefetch_panels:1;tiles_outside:1;prefetch_output:1;joined_taps:0;copied_planes:0;"
              "row_block:0;interleaved_groups:0",
          "lanes:16;vectors:2;pixels:14" + numbers +
              "channels:0;flattened_rows:7;prefetch_distance:0;panels_of_groups:0;transposed_"
              "x:0;partial_sums:1;prefetch_panels:0;tiles_outside:0;prefetch_output:0;joined_taps:0;copied_planes:0;"
              "row_block:0;interleaved_groups:0",
          "lanes:16;vectors:2;pixels:14" + numbers +
              "channels:0;flattened_rows:0;prefetch_distance:0;panels_of_groups:0;transposed_"
              "x:0;partial_sums:1;prefetch_panels:0;tiles_outside:0;prefetch_output:0;joined_taps:1;copied_planes:0;"
              "row_block:0;interleaved_groups:0",
          "lanes:16;vectors:2;pixels:14" + numbers +
              "channels:0;flattened_rows:0;prefetch_distance:0;panels_of_groups:0;transposed_"
              "x:0;partial_sums:1;prefetch_panels:0;tiles_outside:0;prefetch_output:0;joined_taps:0;copied_planes:0;"
              "row_block:0;interleaved_groups:4",
          "lanes:16;vectors:2;pixels:1" + numbers +
              "channels:13;flattened_rows:0;prefetch_distance:8;panels_of_groups:0;"
              "transposed_x:0;partial_sums:1;prefetch_panels:0;tiles_outside:0;prefetch_output:0;joined_taps:0;copied_"
              "planes:0;row_block:0;interleaved_groups:0",
          "lanes:16;vectors:2;pixels:1" + numbers +
              "channels:13;flattened_rows:0;prefetch_distance:0;panels_of_groups:0;"
              "transposed_x:0;partial_sums:1;prefetch_panels:0;tiles_outside:0;prefetch_output:0;joined_taps:0;copied_"
              "planes:1;row_block:0;interleaved_groups:0",
          "lanes:16;vectors:2;pixels:1" + numbers +
              "channels:3;flattened_rows:0;prefetch_distance:0;panels_of_groups:0;"
              "transposed_x:0;partial_sums:1;prefetch_panels:0;tiles_outside:0;prefetch_output:0;joined_taps:0;copied_"
              "planes:0;row_block:512;interleaved_groups:0",
          "lanes:16;vectors:2;pixels:1" + numbers +
              "channels:6;flattened_rows:2;prefetch_distance:0;panels_of_groups:0;transposed_"
              "x:0;partial_sums:1;prefetch_panels:0;tiles_outside:0;prefetch_output:0;joined_taps:0;copied_planes:0;"
              "row_block:0;interleaved_groups:0"}) {
        EXPECT_EQ(print_schedule(parse_schedule<DirectSchedule>(text)), text);
    }
    for (const char *kind : {"channels:0;flattened_rows:2;prefetch_distance:8",
                             "channels:0;flattened_rows:2;prefetch_distance:0;joined_taps:1",
                             "channels:6;flattened_rows:0;prefetch_distance:0;joined_taps:1",
                             "channels:6;flattened_rows:2;prefetch_distance:0;copied_planes:1",
                             "channels:0;flattened_rows:0;prefetch_distance:0;copied_planes:1",
                             "channels:0;flattened_rows:0;prefetch_distance:0;row_block:512",
                             "channels:6;flattened_rows:2;prefetch_distance:0;row_block:512",
                             "channels:6;flattened_rows:0;prefetch_distance:8;row_block:512",
                             "channels:6;flattened_rows:0;prefetch_distance:0;copied_planes:1;row_block:512",
                             "channels:0;flattened_rows:0;prefetch_distance:0;interleaved_groups:1",
                             "channels:6;flattened_rows:0;prefetch_distance:0;interleaved_groups:4",
                             "channels:0;flattened_rows:2;prefetch_distance:0;interleaved_groups:4",
                             "channels:0;flattened_rows:0;prefetch_distance:0;joined_taps:1;interleaved_groups:4"}) {
        EXPECT_THROW(parse_schedule<DirectSchedule>("lanes:16;vectors:2;pixels:1" + numbers + kind),
                     std::invalid_argument)
            << kind;
    }
}

// Each kind of tile and of sums.
TEST(DepthwiseSchedule, prints_what_it_parses) {
    const std::string tile = "lanes:8;vectors:1;pixels:", rest = ";parallel:1;merged:";
    const std::string as_they_lie = ";transposed:0;spread:0", transposed = ";transposed:1;spread:0";
    for (const std::string &text :
         {tile + "2;rows:2;dot_width:1;along_row:0;channels_outside:0" + rest + "0;taps_in_loop:0" + as_they_lie,
          tile + "7;rows:1;dot_width:1;along_row:0;channels_outside:1" + rest + "0;taps_in_loop:1" + as_they_lie,
          tile + "2;rows:2;dot_width:1;along_row:0;channels_outside:0" + rest +
              "0;taps_in_loop:0;transposed:0;spread:1",
          tile + "7;rows:1;dot_width:1;along_row:0;channels_outside:1" + rest + "0;taps_in_loop:1" + transposed,
          tile + "7;rows:1;dot_width:4;along_row:0;channels_outside:1" + rest + "0;taps_in_loop:1" + as_they_lie,
          tile + "7;rows:1;dot_width:2;along_row:0;channels_outside:1" + rest + "0;taps_in_loop:1" + transposed,
          tile + "4;rows:2;dot_width:4;along_row:0;channels_outside:1" + rest + "0;taps_in_loop:0" + as_they_lie,
          tile + "1;rows:4;dot_width:2;along_row:1;channels_outside:0" + rest + "0;taps_in_loop:0" + as_they_lie,
          tile + "1;rows:4;dot_width:1;along_row:0;channels_outside:0" + rest + "1;taps_in_loop:0" + as_they_lie}) {
        EXPECT_EQ(print_schedule(parse_schedule<depthwise::DepthwiseSchedule>(text)), text);
    }
    for (const std::string &text :
         {tile + "1;rows:4;dot_width:1;along_row:1;channels_outside:0" + rest + "1;taps_in_loop:0",
          tile + "1;rows:4;dot_width:2;along_row:0;channels_outside:0" + rest + "0;taps_in_loop:1",
          tile + "7;rows:1;dot_width:1;along_row:0;channels_outside:0" + rest + "0;taps_in_loop:1;transposed:1",
          tile + "7;rows:1;dot_width:1;along_row:0;channels_outside:1" + rest + "0;taps_in_loop:0;transposed:1",
          tile + "7;rows:1;dot_width:1;along_row:0;channels_outside:1" + rest +
              "0;taps_in_loop:1;transposed:1;spread:1",
          tile + "1;rows:4;dot_width:1;along_row:1;channels_outside:0" + rest +
              "0;taps_in_loop:0;transposed:0;spread:1"}) {
        EXPECT_THROW(parse_schedule<depthwise::DepthwiseSchedule>(text), std::invalid_argument) << text;
    }
}

TEST(DirectSchedule, reads_texts_from_before_chunks_and_row_lanes) {
    const std::string text = "lanes:16;vectors:2;pixels:14;rows:1;unroll:4;dot_width:1;panels_outside:1;parallel:0";
    EXPECT_EQ(print_schedule(parse_schedule<DirectSchedule>(text)),
              text + ";chunk:0;channels:0;flattened_rows:0;prefetch_distance:0;panels_of_groups:0;transposed_x:0" +
                  ";partial_sums:1;prefetch_panels:0;tiles_outside:0;prefetch_output:0;joined_taps:0;copied_planes:0;"
                  "row_block:0;interleaved_groups:0");
}

}  // namespace
}  // namespace kiln
