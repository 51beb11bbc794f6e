// Status and its messages.
#include "kiln/status.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "kiln/network.h"

namespace kiln {
namespace {

TEST(Status, IsOkByDefault) {
    const Status status;
    EXPECT_TRUE(status.ok());
    EXPECT_STREQ(status.message(), "");
    EXPECT_STREQ(to_string(status.code()), "ok");
}

TEST(Status, CarriesCodeAndMessage) {
    const Status status = Status::invalid_argument("%s[%d] is %d", "strides", 0, -1);
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_STREQ(status.message(), "strides[0] is -1");
    EXPECT_STREQ(to_string(status.code()), "invalid_argument");
    EXPECT_STREQ(to_string(Status::unsupported("x").code()), "unsupported");
    EXPECT_STREQ(to_string(Status::failed("x").code()), "failed");
}

TEST(StatusText, EveryCodeHasOne) {
    for (const int32_t code : {kiln_ok, kiln_invalid_argument, kiln_unsupported, kiln_failed}) {
        EXPECT_STRNE(kiln_status_text(code), "");
        EXPECT_STRNE(kiln_status_text(code), kiln_status_text(-1));
    }
    EXPECT_STREQ(kiln_status_text(4), kiln_status_text(-1));
}

TEST(StatusText, LastMessageIsEachThreadsOwnAndIsCut) {
    const std::string name(1000, 'n');
    EXPECT_EQ(kiln_refuse(kiln_unsupported, "net_conv", "why"), kiln_unsupported);
    std::string other = "unset", first = kiln_last_message();
    std::thread([&] {
        other = kiln_last_message();
        (void)kiln_refuse(kiln_failed, name.c_str(), "why");
        first = kiln_last_message();
    }).join();
    EXPECT_EQ(other, "");
    EXPECT_EQ(first, std::string(255, 'n'));
    EXPECT_STREQ(kiln_last_message(), "net_conv: why");
}

TEST(StatusText, LastMessageTellsAValue) {
    for (const int64_t value : {INT64_C(0), INT64_C(200), INT64_MAX, INT64_MIN}) {
        EXPECT_EQ(kiln_refuse_size("net_run", "\"width\" must be 160 or 320", value), kiln_invalid_argument);
        EXPECT_EQ(kiln_last_message(), "net_run: \"width\" must be 160 or 320, not " + std::to_string(value));
    }
    (void)kiln_refuse(kiln_failed, "net_run", "why");
    EXPECT_STREQ(kiln_last_message(), "net_run: why");
}

TEST(Status, CutsLongMessagesVisibly) {
    const std::string long_text(1000, 'a');
    const std::string message = Status::unsupported("%s", long_text.c_str()).message();
    EXPECT_GT(message.size(), 300u);
    EXPECT_LT(message.size(), 1000u);
    EXPECT_EQ(message.substr(message.size() - 4), "a...");
}

TEST(Status, LeavesTheFirstErrorOut) {
    const auto f = [](bool fail) -> Status {
        KILN_RETURN_IF_ERROR(Status());
        if (fail) KILN_RETURN_IF_ERROR(Status::unsupported("first"));
        return Status::invalid_argument("last");
    };
    EXPECT_STREQ(f(true).message(), "first");
    EXPECT_STREQ(f(false).message(), "last");
}

}  // namespace
}  // namespace kiln
