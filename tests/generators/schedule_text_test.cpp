// Schedules' texts.
#include "common/schedule_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "dense/direct.h"

namespace kiln {
namespace {

std::string error_of(const std::string &text) {
    try {
        ScheduleText(text, {"a", "b"});
    } catch (const std::invalid_argument &error) {
        return error.what();
    }
    return "";
}

TEST(ScheduleText, reads_each_number_once) {
    const ScheduleText text("b:2;a:10", {"a", "b"});
    EXPECT_EQ(text["a"], 10);
    EXPECT_EQ(text["b"], 2);
}

TEST(ScheduleText, knows_what_older_texts_lack) {
    EXPECT_EQ(ScheduleText("a:1", {"a"}, {{"b", 5}})["b"], 5);
    EXPECT_EQ(ScheduleText("a:1;b:2", {"a"}, {{"b", 5}})["b"], 2);
}

TEST(ScheduleText, names_what_is_wrong) {
    const std::pair<const char *, const char *> cases[] = {{"a:1", "lacks \"b\""},
                                                           {"a:1;b:2;c:3", "\"c:3\""},
                                                           {"a:1;a:2;b:1", "\"a\" is given twice"},
                                                           {"a:x;b:1", "\"a:x\""},
                                                           {"a:-1;b:1", "\"a:-1\""},
                                                           {"a;b:1", "\"a\""},
                                                           {"a:;b:1", "\"a:\""},
                                                           {"a:99999999999;b:1", "\"a:99999999999\""}};
    for (const auto &[text, part] : cases) {
        EXPECT_THAT(error_of(text), testing::HasSubstr(part)) << text;
    }
}

TEST(DirectSchedule, prints_what_it_parses) {
    const std::string text =
        "lanes:16;vectors:2;pixels:14;rows:1;unroll:4;dot:1;panels_outside:1;parallel:0;chunk:7;channels:0;joined:0";
    EXPECT_EQ(dense::DirectSchedule::parse(text).print(), text);
}

TEST(DirectSchedule, reads_texts_from_before_chunks_channels_and_joined_rows) {
    const std::string text = "lanes:16;vectors:2;pixels:14;rows:1;unroll:4;dot:1;panels_outside:1;parallel:0";
    EXPECT_EQ(dense::DirectSchedule::parse(text).print(), text + ";chunk:0;channels:0;joined:0");
}

}  // namespace
}  // namespace kiln
