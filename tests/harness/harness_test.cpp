// The harness must accept a right kernel and catch each way of being wrong.
#include "harness/harness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "../own_folder.h"
#include "fake_library.h"
#include "harness/machine/balance.h"
#include "harness/machine/machine.h"
#include "harness/machine/threads.h"
#include "harness/tensors/data.h"
#include "harness/tensors/guard.h"
#include "reference/numbers.h"
#include "reference/reference.h"

namespace kiln::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

// What verify says about a fake library: its exit status and its rows.
struct AllVerified {
    int status;
    std::vector<json> rows;
};

AllVerified verify_all(kiln_library &library, std::vector<const char *> more = {}) {
    std::vector<const char *> arguments = {"harness", "verify", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    testing::internal::CaptureStdout();
    AllVerified result;
    result.status = harness::main(library, harness::all_commands, static_cast<int>(arguments.size()),
                                  const_cast<char **>(arguments.data()));
    std::istringstream output(testing::internal::GetCapturedStdout());
    for (std::string line; std::getline(output, line);) result.rows.push_back(json::parse(line));
    return result;
}

// The same where there is one row.
struct Verified {
    int status;
    json row;
};

Verified verify(kiln_library &library, std::vector<const char *> more = {}) {
    const AllVerified all = verify_all(library, std::move(more));
    EXPECT_EQ(all.rows.size(), 1);
    return {all.status, all.rows.at(0)};
}

std::string verdict(Defect defect) {
    const Verified result = verify(fake_library(defect));
    EXPECT_EQ(result.status, defect == Defect::none ? 0 : 1);
    return result.row.at("verdict");
}

TEST(Verify, RightKernelIsWithinItsBound) {
    const Verified result = verify(fake_library(Defect::none));
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.row.at("verdict"), "ok");
    EXPECT_EQ(result.row.at("layer"), "only");
    EXPECT_EQ(result.row.at("problem"), print(fake_problem()).c_str());
    EXPECT_EQ(result.row.at("kernel"), "fake");
    EXPECT_GT(result.row.at("bound"), 0);
    EXPECT_LT(result.row.at("ratio"), 1);
}

TEST(Verify, SeedChangesTheData) {
    const json one = verify(fake_library(Defect::none), {"--seed", "1"}).row;
    EXPECT_EQ(one, verify(fake_library(Defect::none), {"--seed", "1"}).row);
    EXPECT_NE(one.at("bound"), verify(fake_library(Defect::none), {"--seed", "2"}).row.at("bound"));
}

TEST(Verify, CatchesWrongValues) {
    EXPECT_THAT(verdict(Defect::wrong_value), HasSubstr("y[0][2][4] is "));
    EXPECT_THAT(verdict(Defect::wrong_value), HasSubstr("1 of 15 elements are out of bounds"));
    EXPECT_THAT(verdict(Defect::unwritten), HasSubstr("y[0][2][4] is nan"));
    EXPECT_THAT(verdict(Defect::nan), HasSubstr("y[0][0][3] is "));
    EXPECT_THAT(verdict(Defect::read_workspace), HasSubstr("y[0][0][0] is "));
    EXPECT_THAT(verdict(Defect::wrong_when_threaded), HasSubstr("(two threads)"));
}

TEST(Verify, CatchesAccessOutOfBounds) {
    EXPECT_THAT(verdict(Defect::write_past_y), HasSubstr("0 bytes past the end of y"));
    EXPECT_THAT(verdict(Defect::write_before_y), HasSubstr("before the beginning of y"));
    EXPECT_THAT(verdict(Defect::read_past_x), HasSubstr("an access 0 bytes past the end of x"));
    EXPECT_THAT(verdict(Defect::read_before_x), HasSubstr("an access 4 bytes before the beginning of x"));
    EXPECT_THAT(verdict(Defect::write_past_workspace), HasSubstr("a write 0 bytes past the end of the workspace"));
}

TEST(Verify, CatchesWritesToInputs) {
    EXPECT_THAT(verdict(Defect::write_x), HasSubstr("at byte 0 of x"));
    EXPECT_THAT(verdict(Defect::write_packed), HasSubstr("at byte 0 of the packed weights"));
}

TEST(Verify, CatchesFailures) {
    EXPECT_THAT(verdict(Defect::error_code), StartsWith("failed: "));
    EXPECT_THAT(verdict(Defect::illegal_instruction), HasSubstr("an instruction that this processor lacks"));
}

TEST(Verify, RefusesAnAlgorithmWithoutABound) {
    kiln_library &library = fake_library(Defect::none);
    fake_kernel().algorithm = "guesswork";
    const Verified result = verify(library);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.row.at("verdict"), "failed: no error bound is stated for the algorithm guesswork");
}

TEST(Verify, SaysWhichFeaturesAreMissing) {
    kiln_library &library = fake_library(Defect::none);
    fake_kernel().features = UINT64_C(1) << 63;
    const Verified result = verify(library);
    EXPECT_EQ(result.status, 1) << "a layer that nothing was checked of is no success";
    EXPECT_THAT(result.row.at("verdict").get<std::string>(), StartsWith("skipped: this processor has no "));
    EXPECT_TRUE(result.row.at("max_error").is_null());
}

TEST(Verify, CatchesRunsThatDisturbEachOther) {
    EXPECT_THAT(verdict(Defect::shared_state), HasSubstr("(three runs at once)"));
}

TEST(Verify, GoesOnBehindAKernelThatEndsTheProgram) {
    for (const Defect defect : {Defect::killed, Defect::stack_overflow}) {
        const auto [status, rows] = verify_all(fake_library_of_three(defect));
        EXPECT_EQ(status, 1);
        ASSERT_EQ(rows.size(), 3);
        EXPECT_EQ(rows[0].at("layer"), "before");
        EXPECT_EQ(rows[1].at("layer"), "bad");
        EXPECT_EQ(rows[2].at("layer"), "behind");
        EXPECT_EQ(rows[0].at("verdict"), "ok");
        EXPECT_EQ(rows[2].at("verdict"), "ok");
        EXPECT_THAT(rows[1].at("verdict").get<std::string>(), StartsWith("failed: the program that checks it "));
        const char *how = defect == Defect::killed ? "was ended by signal 9" : "ended ";
        EXPECT_THAT(rows[1].at("verdict").get<std::string>(), HasSubstr(how));
    }
}

// x has 40 bytes: neither before a guard page nor behind one does it lie at an odd multiple of 4.
TEST(Verify, CatchesWhatTakesTensorsToBeAligned) {
    EXPECT_THAT(verdict(Defect::wrong_unaligned), HasSubstr("of no larger alignment than their elements'"));
}

TEST(Verify, DrawsWhatALayerLeavesOpen) {
    kiln_library &library = fake_open_library(Defect::none);
    std::set<std::string> problems;
    const auto rows = verify_all(library, {"--draws", "5"}).rows;
    for (const json &row : rows) {
        EXPECT_EQ(row.at("verdict"), "ok");
        problems.insert(row.at("problem"));
        Problem problem;
        ASSERT_TRUE(parse(row.at("problem").get<std::string>(), &problem).ok());
        EXPECT_FALSE(problem.has_open_sizes());
    }
    EXPECT_EQ(rows.size(), 5);
    EXPECT_GE(problems.size(), 3);
    EXPECT_EQ(verify_all(library, {"--draws", "5"}).rows, rows);
    EXPECT_NE(verify_all(library, {"--draws", "5", "--seed", "2"}).rows, rows);
}

TEST(Verify, CatchesWrongValuesOfOpenKernels) {
    const auto result = verify_all(fake_open_library(Defect::wrong_value), {"--draws", "5"});
    EXPECT_EQ(result.status, 1);
    const auto failed = std::count_if(result.rows.begin(), result.rows.end(), [](const json &row) {
        return row.at("verdict").get<std::string>().find("failed: y") == 0;
    });
    EXPECT_GE(failed, 2);
}

TEST(CommandLine, RefusesWhatItDoesNotKnow) {
    for (std::vector<const char *> arguments :
         std::initializer_list<std::vector<const char *>>{{"harness"},
                                                          {"harness", "measure"},
                                                          {"harness", "verify", "--seed"},
                                                          {"harness", "verify", "--seed", "x"},
                                                          {"harness", "verify", "--layer", "other"},
                                                          {"harness", "bench", "--threads", "0"},
                                                          {"harness", "bench", "--workers", "4,0"},
                                                          {"harness", "bench", "--workers", "4,"},
                                                          {"harness", "bench", "--weights-dir", "."},
                                                          {"harness", "verify", "--draws", "0"},
                                                          {"harness", "run"}}) {
        testing::internal::CaptureStderr();
        EXPECT_EQ(harness::main(fake_library(Defect::none), harness::all_commands, static_cast<int>(arguments.size()),
                                const_cast<char **>(arguments.data())),
                  2);
        EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("usage: "));
    }
}

TEST(Bench, WritesItsResults) {
    const OwnFolder folder;
    const std::string path = folder.file("bench.json");
    std::vector<const char *> arguments = {"harness", "bench", "--seconds", "0", "--json", path.c_str()};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_EQ(harness::main(fake_library(Defect::none), harness::all_commands, static_cast<int>(arguments.size()),
                            const_cast<char **>(arguments.data())),
              0);
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("only"));
    testing::internal::GetCapturedStderr();
    std::ifstream file(path);
    const json result = json::parse(file);
    ASSERT_EQ(result.at("rows").size(), 1);
    const json &row = result.at("rows")[0];
    EXPECT_EQ(row.at("layer"), "only");
    EXPECT_GT(row.at("ms"), 0);
    EXPECT_DOUBLE_EQ(row.at("gflop"), fake_problem().flops() * 1e-9);
    EXPECT_NEAR(row.at("gflops").get<double>(), row.at("gflop").get<double>() / row.at("ms").get<double>() * 1e3, 1e-3);
    const double peak = result.at("peak_gflops").begin()->get<double>();
    EXPECT_NEAR(row.at("peak_share").get<double>(), row.at("gflops").get<double>() / peak, 1e-4);
    EXPECT_EQ(result.at("machine").at("threads"), 1);
}

// Two loops, of six pieces and of two, and one of a single piece, which is none.
int32_t run_in_pieces(const void *, const void *, const void *, const void *, const void *, const void *, const float *,
                      void *, const int32_t *, void *workspace, const kiln_threads *threads) {
    const auto wait = [](void *, int32_t, uint8_t *) -> int32_t {
        for (const double end = harness::now() + 1e-5; harness::now() < end;) {
        }
        return kiln_ok;
    };
    for (const int32_t count : {6, 1, 2}) kiln_parallel_for(threads, wait, nullptr, 0, count, workspace, 0);
    return kiln_ok;
}

TEST(Bench, TellsHowEvenlyWorkersWouldShareTheWork) {
    const kiln_library &library = fake_library(Defect::none);
    fake_kernel().run = run_in_pieces;
    std::vector<const char *> arguments = {"harness", "bench", "--seconds", "0", "--workers", "1,2,4", "--json", "-"};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_EQ(harness::main(library, harness::all_commands, static_cast<int>(arguments.size()),
                            const_cast<char **>(arguments.data())),
              0);
    testing::internal::GetCapturedStderr();
    const json row = json::parse(testing::internal::GetCapturedStdout()).at("rows")[0];
    EXPECT_EQ(row.at("pieces"), json::parse("[6, 2]"));
    EXPECT_GE(row.at("in_pieces_ms").get<double>(), 0.09);  // each of the nine waits
    const json &balance = row.at("balance");
    ASSERT_EQ(balance.size(), 3);
    EXPECT_EQ(balance[0].at("workers"), 1);
    EXPECT_NEAR(balance[0].at("speed_up").get<double>(), 1, 1e-6);
    EXPECT_NEAR(balance[0].at("largest_share").get<double>(), 1, 1e-6);
    // At the least: other work may run beside this test, and makes some pieces longer.
    EXPECT_GE(balance[1].at("largest_share").get<double>(), 1);
    EXPECT_GT(balance[2].at("largest_share").get<double>(), 1.2);
    EXPECT_LE(balance[1].at("speed_up").get<double>(), 2);
    EXPECT_LE(balance[2].at("speed_up").get<double>(), 4);
}

TEST(Balance, WorkersTakeWhatOthersHaveLeft) {
    const auto of_two = harness::simulate({2, {{4, 1, 1, 1}}, 0});  // the second takes the first one's second piece
    EXPECT_DOUBLE_EQ(of_two.largest_share, 4 / 3.5);
    EXPECT_DOUBLE_EQ(of_two.speed_up, 7 / 4.0);
    const auto of_four = harness::simulate({4, {{1, 1, 1, 1, 1}, {2, 2}}, 1});  // 2 and 2 seconds, and 1 between
    EXPECT_DOUBLE_EQ(of_four.largest_share, 4 / (9 / 4.0));
    EXPECT_DOUBLE_EQ(of_four.speed_up, 10 / 5.0);
    const auto without_loops = harness::simulate({8, {}, 3});
    EXPECT_DOUBLE_EQ(without_loops.largest_share, 8);
    EXPECT_DOUBLE_EQ(without_loops.speed_up, 1);
}

TEST(Bench, TimesWhatALayerLeavesOpen) {
    std::vector<const char *> arguments = {"harness", "bench", "--seconds", "0", "--draws", "2", "--json", "-"};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_EQ(harness::main(fake_open_library(Defect::none), harness::all_commands, static_cast<int>(arguments.size()),
                            const_cast<char **>(arguments.data())),
              0);
    testing::internal::GetCapturedStderr();
    const json rows = json::parse(testing::internal::GetCapturedStdout()).at("rows");
    ASSERT_EQ(rows.size(), 2);
    for (const json &row : rows) {
        EXPECT_EQ(row.at("layer"), "open");
        EXPECT_GT(row.at("ms"), 0);
        EXPECT_THAT(row.at("problem").get<std::string>(), testing::Not(HasSubstr("?")));
    }
}

TEST(Bench, GoesOnWithoutAKernelThatEndsTheProgram) {
    std::vector<const char *> arguments = {"harness", "bench", "--seconds", "0", "--json", "-"};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    EXPECT_EQ(harness::main(fake_library_of_three(Defect::killed), harness::all_commands,
                            static_cast<int>(arguments.size()), const_cast<char **>(arguments.data())),
              1);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("layer bad: the program that times it was ended by"));
    const json rows = json::parse(testing::internal::GetCapturedStdout()).at("rows");
    ASSERT_EQ(rows.size(), 3);
    EXPECT_GT(rows[0].at("ms"), 0);
    EXPECT_GT(rows[2].at("ms"), 0);
    EXPECT_EQ(rows[1].at("layer"), "bad");
    EXPECT_THAT(rows[1].at("error").get<std::string>(), HasSubstr("was ended by signal 9"));
}

TEST(Machine, PeaksArePlausible) {
    // Any processor since 2010 does more than 1 GFLOP/s a core, and none yet 1000.
    const double peak = harness::measure_peak(harness::isa_of(0), 0.01);
    EXPECT_GT(peak, 0.1);
    EXPECT_LT(peak, 1000);
}

class RunTest : public testing::Test {
  protected:
    void SetUp() override {
        const Problem problem = fake_problem();
        tensors_ = harness::random_tensors(problem, 1, harness::Offsets::ordinary);
        for (const harness::Tensor tensor : {harness::Tensor::x, harness::Tensor::w, harness::Tensor::bias})
            write(name_of(tensor), tensors_[tensor]);
        const std::vector<char> &x = tensors_[harness::Tensor::x];
        write("short", std::vector<char>(x.begin(), x.end() - 1));
    }

    std::string path(const std::string &name) const { return folder_.file(name); }
    void write(const std::string &name, const std::vector<char> &data) const {
        std::ofstream(path(name), std::ios::binary).write(data.data(), static_cast<std::streamsize>(data.size()));
    }
    std::string request(const std::string &name, const std::string &problem, const std::string &x) const {
        return name + '\t' + problem + "\t6,3,1\t" + path(x) + '\t' + path("w") + '\t' + path("bias") +
               "\t-\t-\t-\t-\t-\t" + path(name + ".y") + '\n';
    }
    static std::string text() { return print(fake_problem()).c_str(); }
    // The lines it answers.
    std::vector<std::string> run(const std::string &requests, int expected_status, Defect defect = Defect::none) const {
        std::ofstream(path("requests")) << requests;
        const std::string file = path("requests");
        const char *arguments[] = {"harness", "run", file.c_str()};
        testing::internal::CaptureStdout();
        EXPECT_EQ(harness::main(fake_library(defect), harness::all_commands, 3, const_cast<char **>(arguments)),
                  expected_status);
        std::istringstream output(testing::internal::GetCapturedStdout());
        std::vector<std::string> lines;
        for (std::string line; std::getline(output, line);) lines.push_back(line);
        return lines;
    }

    const OwnFolder folder_;
    harness::Tensors tensors_;
};

TEST_F(RunTest, ComputesAndWritesY) {
    EXPECT_THAT(run(request("a", text(), "x"), 0), testing::ElementsAre("ok\ta\tdirect@fake"));
    std::ifstream file(path("a.y"), std::ios::binary);
    const std::vector<char> y{std::istreambuf_iterator<char>(file), {}};
    reference::Result expected;
    const int64_t strides[] = {6, 3, 1};
    const auto data = [&](harness::Tensor tensor) { return tensors_[tensor].data(); };
    ASSERT_TRUE(
        reference::compute(fake_problem(),
                           {data(harness::Tensor::x), data(harness::Tensor::w), strides, data(harness::Tensor::bias)},
                           &expected)
            .ok());
    ASSERT_EQ(y.size(), expected.y.size() * sizeof(float));
    for (size_t i = 0; i < expected.y.size(); ++i)
        EXPECT_NEAR(reference::load(DType::f32, y.data(), i), expected.y[i], 1e-5);
}

TEST_F(RunTest, OneBadRequestDoesNotStopTheOthers) {
    std::string bad_strides = request("f", text(), "x");
    bad_strides.replace(bad_strides.find("6,3,1"), 5, "6,3");
    const auto lines =
        run(request("a", text(), "nowhere") + request("b", "other", "x") + request("c", text(), "short") + "d\t" +
                text() + '\n' + request("e", text(), "x") + bad_strides,
            1);
    ASSERT_EQ(lines.size(), 6);
    EXPECT_THAT(lines[0], StartsWith("error\ta\tfailed\tx: "));
    EXPECT_THAT(lines[1], StartsWith("error\tb\t"));
    EXPECT_THAT(lines[2], HasSubstr("does not hold 40 bytes"));
    EXPECT_THAT(lines[3], StartsWith("error\td\tinvalid_argument\t"));
    EXPECT_EQ(lines[4], "ok\te\tdirect@fake");
    EXPECT_EQ(lines[5], "error\tf\tinvalid_argument\tweight-strides is 6,3: 3 are needed");
}

TEST_F(RunTest, SaysWhatAKernelMustNotTouch) {
    const std::vector<std::pair<Defect, const char *>> rows = {
        {Defect::read_past_x, "an access 0 bytes past the end of x"},
        {Defect::write_past_workspace, "a write 0 bytes past the end of the workspace"},
        {Defect::write_x, "an access at byte 0 of x"},
    };
    for (const auto &[defect, message] : rows) {
        const auto lines = run(request("a", text(), "x"), 1, defect);
        ASSERT_EQ(lines.size(), 1);
        EXPECT_EQ(lines[0], std::string("error\ta\tfailed\tthe kernel made ") + message);
    }
}

TEST(ThreadTeam, RunsEveryPieceOnceAndReportsFailures) {
    harness::ThreadTeam team(3);
    struct Closure {
        std::atomic<int> runs[100] = {};
        std::atomic<int> at_once[3] = {};
        std::atomic<bool> shared{false};
    } closure;
    const auto task = [](void *data, int32_t index, int32_t worker) -> int32_t {
        auto &c = *static_cast<Closure *>(data);
        ++c.runs[index];
        if (++c.at_once[worker] > 1) c.shared = true;
        --c.at_once[worker];
        return index == 42 ? kiln_failed : kiln_ok;
    };
    const kiln_threads *hook = team.hook();
    for (int round = 0; round < 50; ++round)
        EXPECT_EQ(hook->parallel_for(hook->context, task, &closure, 100), kiln_failed);
    EXPECT_EQ(hook->parallel_for(hook->context, task, &closure, 10), kiln_ok);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(closure.runs[i], i < 10 ? 51 : 50);
    EXPECT_FALSE(closure.shared);
}

}  // namespace
}  // namespace kiln::test
