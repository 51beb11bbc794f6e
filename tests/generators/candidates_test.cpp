// Candidate spaces: they hold the default, name numbers that schedules have, and what they allow compiles.
#include "candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <set>

#include "../own_folder.h"
#include "../parsed.h"
#include "kernel.h"

namespace kiln {
namespace {

constexpr const char *problems[] = {
    "conv2d-f32-n1-c16-i14x14-m32-o14x14-k3x3-s1x1-d1x1-p1x1,1x1-g1-nxc,nxc-bias-relu",
    "conv2d-f32-n4-c8-i9x9-m24-o5x5-k3x3-s2x2-d1x1-p1x1,1x1-g1-ncx,ncx",
    "conv2d-f32-n1-c32-i8x8-m32-o8x8-k3x3-s1x1-d1x1-p1x1,1x1-g4-nxc,ncx-bias",
    "conv2d-f32-n1-c24-i13x13-m24-o13x13-k3x3-s1x1-d1x1-p1x1,1x1-g24-ncx,ncx",
    "conv2d-f32-n1-c24-i13x13-m24-o13x13-k5x5-s1x1-d1x1-p2x2,2x2-g24-nxc,nxc",
    "conv1d-f32-n1-c12-i60-m20-o60-k3-s1-d1-p1,1-g1-ncx,ncx-bias",
    "conv2d-u8.s8.u8-n1-c16-i9x9-m24-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g1-xz128-yz3-nxc,nxc-bias",
    "conv2d-bf16-n1-c16-i9x9-m24-o9x9-k1x1-s1x1-d1x1-p0x0,0x0-g1-nxc,nxc",
    "conv3d-f32-n1-c8-i6x6x6-m16-o6x6x6-k3x3x3-s1x1x1-d1x1x1-p1x1x1,1x1x1-g1-nxc,nxc",
    "convtranspose2d-f32-n1-c16-i7x7-m16-o14x14-k4x4-s2x2-d1x1-p1x1,1x1-g1-nxc,nxc-bias",
    "convtranspose2d-f32-n1-c3-i6x6-m5-o12x12-k2x2-s2x2-d1x1-p0x0,0x0-g1-ncx,ncx",
    "deformconv2d-f32-n1-c16-i9x9-m24-o9x9-k3x3-s1x1-d1x1-p1x1,1x1-g1-og2-nxc,nxc-mask",
    "convtranspose2d-f32-n1-c512-i28x28-m128-o56x56-k2x2-s2x2-d1x1-p0x0,0x0-g1-nxc,nxc",
    "conv2d-f32-n1-c16-i?x?-m32-o?x?-k3x3-s1x1-d1x1-p1x1,?x?-g1-nxc,nxc-bias"};

// Points of a space, drawn number by number.
std::vector<ScheduleNumbers> drawn(const CandidateSpace &space, const Problem &problem, int count,
                                   std::mt19937_64 &random) {
    std::vector<ScheduleNumbers> result;
    while (static_cast<int>(result.size()) < count) {
        const std::optional<ScheduleNumbers> numbers = space.draw(problem, random, 2000);
        if (!numbers) break;
        result.push_back(*numbers);
    }
    return result;
}

TEST(Candidates, drawn_decisions_are_legal_and_differ_by_seed) {
    for (const char *target : {"x86-64-avx2", "x86-64-amx", "arm-64-linux"}) {
        const TargetModel &model = find_target(target);
        for (const char *text : problems) {
            const Problem problem = parsed(text);
            std::set<std::string> seen;
            for (uint64_t seed = 0; seed < 8; seed++) {
                const Decision decision = drawn_decision(problem, model, seed);
                EXPECT_NO_THROW(check_decision(problem, decision, algorithm_revision(decision.algorithm), &model))
                    << text << " " << decision.schedule;
                EXPECT_EQ(decision.schedule, drawn_decision(problem, model, seed).schedule);
                seen.insert(decision.algorithm + decision.schedule);
            }
            // Few problems have a single point.
            if (candidate_spaces(problem, model)[0].space.choices.size() > 2) EXPECT_GT(seen.size(), 2u) << text;
        }
    }
}

TEST(Candidates, start_from_the_default_and_name_what_schedules_have) {
    for (const TargetModel &target : target_models()) {
        if (target.is_gpu()) continue;
        for (const char *text : problems) {
            const Problem problem = parsed(text);
            const std::vector<CandidateSpace> spaces = candidate_spaces(problem, target);
            const Decision taken = default_decision(problem, target);
            EXPECT_EQ(spaces.at(0).algorithm, taken.algorithm) << text;
            EXPECT_EQ(spaces.at(0).start.print(), taken.schedule) << text;
            for (const CandidateSpace &space : spaces) {
                EXPECT_TRUE(space.allows(problem, space.start)) << text;
                for (const ScheduleSpace::Choice &choice : space.space.choices) {
                    EXPECT_TRUE(space.start.has(choice.name)) << space.algorithm << " " << choice.name;
                    EXPECT_THAT(choice.values, testing::Contains(space.start[choice.name])) << choice.name;
                }
            }
        }
    }
}

TEST(Candidates, have_neighbours_wherever_something_can_be_tuned) {
    const TargetModel &target = find_target("x86-64-avx2");
    for (const char *text : problems) {
        const Problem problem = parsed(text);
        for (const CandidateSpace &space : candidate_spaces(problem, target)) {
            const size_t near = space.neighbours(problem, space.start, 1).size();
            EXPECT_GE(near, 3u) << text << " " << space.algorithm;
            EXPECT_GT(space.neighbours(problem, space.start, 2).size(), near) << text << " " << space.algorithm;
        }
    }
}

TEST(Candidates, are_none_that_take_minutes_to_compile) {
    const auto allows = [](const char *text, const std::string &schedule) {
        const Problem problem = parsed(text);
        const CandidateSpace space = candidate_spaces(problem, find_target("x86-64-amx")).at(0);
        EXPECT_EQ(space.algorithm, "depthwise");
        return space.allows(problem, ScheduleNumbers(schedule));
    };
    const auto woven = [&](const std::string &rows) {
        return allows(
            "convtranspose2d-f32-n1-c64-i56x56-m64-o112x112-k4x4-s2x2-d1x1-p1x1,1x1-g64-ncx,ncx-bias",
            "lanes:16;vectors:1;pixels:1;rows:" + rows + ";dot_width:1;along_row:1;channels_outside:0;parallel:1");
    };
    EXPECT_TRUE(woven("2"));
    EXPECT_FALSE(woven("7"));
    const auto scattered = [&](const std::string &tile) {
        return allows("conv2d-u8.s8.u8-n1-c128-i56x56-m128-o56x56-k3x3-s1x1-d1x1-p1x1,1x1-g128-xz0-yz0-ncx,ncx-bias",
                      "lanes:16;vectors:1;" + tile + ";dot_width:4;along_row:0;channels_outside:0;parallel:1");
    };
    EXPECT_TRUE(scattered("pixels:2;rows:2"));
    EXPECT_FALSE(scattered("pixels:6;rows:8"));
    const auto scattered_phases = [&](const std::string &rows) {
        return allows(
            "convtranspose3d-f32-n1-c32-i4x4x4-m32-o8x8x8-k2x2x2-s2x2x2-d1x1x1-p0x0x0,0x0x0-g32-ncx,ncx",
            "lanes:16;vectors:1;pixels:1;rows:" + rows + ";dot_width:1;along_row:0;channels_outside:0;parallel:1");
    };
    EXPECT_TRUE(scattered_phases("2"));
    EXPECT_FALSE(scattered_phases("4"));
}

// In a process of its own, as kiln does it: LLVM reads what it is told of a target once.
void expect_compiles(const KernelRequest &request, const std::string &file) {
    const pid_t child = fork();
    if (child == 0) {
        try {
            generate_kernel(request, file);
            _exit(0);
        } catch (const std::exception &error) {
            std::fprintf(stderr, "%s\n", error.what());
            _exit(1);
        }
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

// On one target a problem, in turn, which is what the time allows.
TEST(Candidates, compile) {
    std::mt19937_64 random(7);
    const OwnFolder folder;
    const std::string file = folder.file("candidate.o");
    const auto targets = target_models();
    size_t turn = 0;
    for (const char *text : problems) {
        const Problem problem = parsed(text);
        while (targets[turn % targets.size()].is_gpu()) turn++;
        const TargetModel &target = targets[turn++ % targets.size()];
        for (const CandidateSpace &space : candidate_spaces(problem, target)) {
            const std::vector<ScheduleNumbers> points = drawn(space, problem, 1, random);
            EXPECT_EQ(points.size(), 1u) << text << " " << space.algorithm;
            for (const ScheduleNumbers &numbers : points) {
                SCOPED_TRACE(std::string(text) + " " + space.algorithm + " " + numbers.print() + " " + target.name);
                expect_compiles({problem, {space.algorithm, numbers.print()}, &target, "k"}, file);
            }
        }
    }
}

}  // namespace
}  // namespace kiln
