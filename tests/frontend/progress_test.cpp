#include "system/progress.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kiln::tools {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Progress, Line) {
    EXPECT_EQ(progress_line("compiling", 13, 52, 30, "C1", 100),
              "compiling [######..................] 13/52  25% ETA 1:30 C1");
    EXPECT_THAT(progress_line("compiling", 0, 52, 0, "", 100), HasSubstr("ETA --:--"));
    EXPECT_THAT(progress_line("compiling", 52, 52, 30, "", 100),
                HasSubstr("[########################] 52/52 100% ETA 0:00"));
    EXPECT_EQ(progress_line("compiling", 13, 52, 30, "a long name", 40).size(), 39u);
    EXPECT_THAT(progress_line("running", 0, 0, 0, "", 100), HasSubstr("0/0 100%"));
}

std::string written(bool terminal, const std::function<void(Progress &)> &act) {
    char *text = nullptr;
    size_t size = 0;
    std::FILE *stream = open_memstream(&text, &size);
    {
        Progress progress("compiling", 2, stream, terminal);
        act(progress);
    }
    std::fclose(stream);
    const std::string result(text, size);
    std::free(text);
    return result;
}

TEST(Progress, PlainLinesElsewhere) {
    const std::string text = written(false, [](Progress &progress) {
        progress.step("a");
        progress.note("b is slow");
        progress.step("b");
    });
    EXPECT_EQ(text, "compiling 1/2: a\nb is slow\ncompiling 2/2: b\n");
}

TEST(Progress, BarOnATerminal) {
    const std::string text = written(true, [](Progress &progress) {
        progress.step("a");
        progress.note("b is slow");
        progress.step("b");
    });
    EXPECT_THAT(text, StartsWith("\r\x1b[Kcompiling ["));
    EXPECT_THAT(text, HasSubstr("\r\x1b[Kb is slow\n"));
    EXPECT_THAT(text, HasSubstr("2/2 100%"));
    EXPECT_THAT(text, EndsWith("\n"));
}

TEST(Progress, SeveralThreads) {
    const std::string text = written(false, [](Progress &progress) {
        std::thread other([&] { progress.step("a"); });
        progress.step("b");
        other.join();
    });
    EXPECT_THAT(text, HasSubstr("compiling 2/2: "));
}

}  // namespace
}  // namespace kiln::tools
