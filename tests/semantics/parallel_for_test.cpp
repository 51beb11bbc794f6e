// kiln_parallel_for, where pieces have loops of their own, and of several loops: with the caller's threads and without.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kiln/kernel.h"

namespace {

// What a task saw: the index and the scratch it was given.
struct Seen {
    std::mutex mutex;
    std::vector<int32_t> indices;
    std::vector<void *> scratches;
    std::vector<int> busy = std::vector<int>(8);  // pieces running on each worker's scratch
    bool shared = false;                          // two at once on one
    int32_t fail_at = -1, code = kiln_ok;
    char *scratch = nullptr;
};
constexpr int64_t stride = 64;

int32_t task(void *scratch, int32_t index, uint8_t *closure) {
    Seen &seen = *reinterpret_cast<Seen *>(closure);
    const size_t worker = static_cast<size_t>((static_cast<char *>(scratch) - seen.scratch) / stride);
    {
        const std::lock_guard lock(seen.mutex);
        seen.indices.push_back(index);
        seen.scratches.push_back(scratch);
        if (seen.busy[worker]++ != 0) seen.shared = true;
    }
    std::this_thread::yield();
    const std::lock_guard lock(seen.mutex);
    seen.busy[worker]--;
    return index == seen.fail_at ? seen.code : kiln_ok;
}

int32_t run(Seen *seen, const kiln_threads *threads, int32_t begin, int32_t count, char *scratch) {
    seen->scratch = scratch;
    return kiln_parallel_for(threads, task, reinterpret_cast<uint8_t *>(seen), begin, count, scratch, stride);
}

// The simplest hook there is: a thread a worker, which take the next index each.
struct Team {
    int32_t calls = 0;
    static int32_t parallel_for(void *context, kiln_task piece, void *closure, int32_t count) {
        static_cast<Team *>(context)->calls++;
        std::atomic<int32_t> next{0}, result{kiln_ok};
        std::vector<std::thread> threads;
        threads.reserve(4);
        for (int32_t worker = 0; worker < 4; worker++) {
            threads.emplace_back([&, worker] {
                for (int32_t i = next++; i < count; i = next++) {
                    if (const int32_t code = piece(closure, i, worker); code != kiln_ok) result = code;
                }
            });
        }
        for (std::thread &thread : threads) thread.join();
        return result;
    }
    kiln_threads hook() { return {this, 4, parallel_for}; }
};

TEST(ParallelFor, RunsInOrderWithoutThreads) {
    Seen seen;
    char scratch[8 * stride];
    EXPECT_EQ(run(&seen, nullptr, 3, 4, scratch), kiln_ok);
    EXPECT_EQ(seen.indices, (std::vector<int32_t>{3, 4, 5, 6}));
    EXPECT_EQ(seen.scratches, std::vector<void *>(4, scratch));
}

TEST(ParallelFor, StopsAtAFailure) {
    Seen seen;
    seen.fail_at = 4;
    seen.code = kiln_failed;
    char scratch[8 * stride];
    EXPECT_EQ(run(&seen, nullptr, 3, 4, scratch), kiln_failed);
    EXPECT_EQ(seen.indices, (std::vector<int32_t>{3, 4}));
}

TEST(ParallelFor, DoesNothingForNothing) {
    Seen seen;
    Team team;
    const kiln_threads threads = team.hook();
    EXPECT_EQ(run(&seen, nullptr, 5, 0, nullptr), kiln_ok);
    EXPECT_EQ(run(&seen, &threads, 5, 0, nullptr), kiln_ok);
    EXPECT_TRUE(seen.indices.empty());
}

TEST(ParallelFor, GivesEachWorkerItsScratch) {
    Seen seen;
    Team team;
    const kiln_threads threads = team.hook();
    char scratch[8 * stride];
    EXPECT_EQ(run(&seen, &threads, -10, 200, scratch), kiln_ok);
    EXPECT_EQ(team.calls, 1);
    EXPECT_FALSE(seen.shared) << "two pieces ran on one scratch at once";
    std::sort(seen.indices.begin(), seen.indices.end());
    ASSERT_EQ(seen.indices.size(), 200u);
    for (int32_t i = 0; i < 200; i++) {
        EXPECT_EQ(seen.indices[static_cast<size_t>(i)], i - 10);
    }
    for (void *used : seen.scratches) {
        const auto offset = static_cast<char *>(used) - scratch;
        EXPECT_TRUE(offset >= 0 && offset < 4 * stride && offset % stride == 0) << offset;
    }
}

TEST(ParallelFor, ReportsWhatTheHookReports) {
    Seen seen;
    seen.fail_at = 7;
    seen.code = kiln_unsupported;
    Team team;
    const kiln_threads threads = team.hook();
    char scratch[8 * stride];
    EXPECT_EQ(run(&seen, &threads, 0, 20, scratch), kiln_unsupported);
}

// Of each piece: whether its loops are shared, by what its scratch begins with.
struct SharedWithin {
    const kiln_threads *threads = nullptr;
    std::mutex mutex;
    std::vector<bool> shared;
    bool by_others = false;
    int32_t fail_at = -1;
};

int32_t outer_task(void *scratch, int32_t index, uint8_t *closure) {
    SharedWithin &seen = *reinterpret_cast<SharedWithin *>(closure);
    uint64_t address = 1;
    std::memcpy(&address, scratch, sizeof address);
    const std::lock_guard lock(seen.mutex);
    seen.shared[static_cast<size_t>(index)] = address != 0;
    seen.by_others = seen.by_others || (address != 0 && address != reinterpret_cast<uintptr_t>(seen.threads));
    return index == seen.fail_at ? kiln_failed : kiln_ok;
}

TEST(ParallelForOuter, SharesTheLoopsOfWhatIsLeft) {
    Team team;
    const kiln_threads threads = team.hook();
    const struct {
        const kiln_threads *threads;
        int32_t count, within, shared;
    } rows[] = {
        {&threads, 8, 100, 0},   // each of four workers has two
        {&threads, 9, 100, 1},   // a third of the time would be one worker's
        {&threads, 3, 100, 3},   // more workers than pieces
        {&threads, 3, 3, 0},     // which are of few pieces: three of those each would take as long
        {&threads, 79, 100, 0},  // the last round, of twenty, lacks one
        {&threads, 1, 1, 0},     //
        {nullptr, 3, 100, 0},    //
        {&threads, 0, 100, 0},
    };
    for (const auto &row : rows) {
        SharedWithin seen;
        seen.threads = row.threads;
        seen.shared.assign(static_cast<size_t>(row.count), false);
        alignas(8) char scratch[4 * stride];
        EXPECT_EQ(kiln_parallel_for_outer(row.threads, outer_task, reinterpret_cast<uint8_t *>(&seen), 0, row.count,
                                          row.within, scratch, stride),
                  kiln_ok);
        EXPECT_EQ(std::count(seen.shared.begin(), seen.shared.end(), true), row.shared) << row.count << " pieces";
        EXPECT_EQ(std::count(seen.shared.end() - row.shared, seen.shared.end(), true), row.shared) << "not the last";
        EXPECT_FALSE(seen.by_others);
    }
}

TEST(ParallelForOuter, StopsAtAFailure) {
    Team team;
    const kiln_threads threads = team.hook();
    for (const int32_t fail_at : {2, 8}) {  // shared whole, and of what is left
        SharedWithin seen;
        seen.threads = &threads;
        seen.fail_at = fail_at;
        seen.shared.assign(9, false);
        alignas(8) char scratch[4 * stride];
        EXPECT_EQ(kiln_parallel_for_outer(&threads, outer_task, reinterpret_cast<uint8_t *>(&seen), 0, 9, 100, scratch,
                                          stride),
                  kiln_failed);
        EXPECT_EQ(seen.shared[8], fail_at == 8);
    }
}

// Which pieces of loops have run, in their order.
struct Runs {
    std::mutex mutex;
    std::vector<std::pair<int32_t, int32_t>> pieces;  // loop and index
};
struct RunOfLoop {
    Runs *runs = nullptr;
    int32_t loop = 0, fail_at = -1;
};

int32_t joined_task(void *, int32_t index, uint8_t *closure) {
    const RunOfLoop &own = *reinterpret_cast<RunOfLoop *>(closure);
    const std::lock_guard lock(own.runs->mutex);
    own.runs->pieces.emplace_back(own.loop, index);
    return index == own.fail_at ? kiln_failed : kiln_ok;
}

std::vector<kiln_parallel_loop> loops_of(std::vector<RunOfLoop> &closures, const std::vector<int32_t> &counts) {
    std::vector<kiln_parallel_loop> loops;
    for (size_t i = 0; i < counts.size(); i++) {
        loops.push_back({joined_task, reinterpret_cast<uint8_t *>(&closures[i]), 3, counts[i]});
    }
    return loops;
}

// Runs indices in turn, in the calling thread, as if workers were so many.
struct InTurn {
    static int32_t parallel_for(void *, kiln_task piece, void *closure, int32_t count) {
        for (int32_t i = 0; i < count; i++) {
            if (const int32_t code = piece(closure, i, 0); code != kiln_ok) return code;
        }
        return kiln_ok;
    }
    static kiln_threads hook(int32_t workers) { return {nullptr, workers, parallel_for}; }
};

TEST(ParallelForJoined, RunsEachPieceOfEachLoopOnce) {
    const std::vector<int32_t> counts = {5, 1, 12, 0, 3};
    std::vector<std::pair<int32_t, int32_t>> all;
    for (int32_t loop = 0; loop < 5; loop++) {
        for (int32_t i = 0; i < counts[static_cast<size_t>(loop)]; i++) all.emplace_back(loop, 3 + i);
    }
    Team team;
    const kiln_threads four = team.hook(), one = InTurn::hook(1), fifty = InTurn::hook(50);
    for (const kiln_threads *threads : {static_cast<const kiln_threads *>(nullptr), &one, &fifty, &four}) {
        Runs runs;
        std::vector<RunOfLoop> closures;
        for (int32_t loop = 0; loop < 5; loop++) closures.push_back({&runs, loop});
        const std::vector<kiln_parallel_loop> loops = loops_of(closures, counts);
        EXPECT_EQ(kiln_parallel_for_joined(threads, loops.data(), 5, nullptr, 0), kiln_ok);
        if (threads == nullptr || threads == &one) {
            EXPECT_EQ(runs.pieces, all);  // loop by loop
        }
        std::sort(runs.pieces.begin(), runs.pieces.end());
        EXPECT_EQ(runs.pieces, all);
    }
    EXPECT_EQ(team.calls, 1);
}

TEST(ParallelForJoined, GivesEachWorkerItsPartOfEachLoop) {
    Runs runs;
    std::vector<RunOfLoop> closures = {{&runs, 0}, {&runs, 1}};
    const std::vector<kiln_parallel_loop> loops = loops_of(closures, {4, 6});
    const kiln_threads two = InTurn::hook(2);
    EXPECT_EQ(kiln_parallel_for_joined(&two, loops.data(), 2, nullptr, 0), kiln_ok);
    const std::vector<std::pair<int32_t, int32_t>> halves = {{0, 3}, {0, 4}, {1, 3}, {1, 4}, {1, 5},
                                                             {0, 5}, {0, 6}, {1, 6}, {1, 7}, {1, 8}};
    EXPECT_EQ(runs.pieces, halves);
}

TEST(ParallelForJoined, StopsAtAFailure) {
    const kiln_threads one = InTurn::hook(1);
    for (const kiln_threads *threads : {static_cast<const kiln_threads *>(nullptr), &one}) {
        Runs runs;
        std::vector<RunOfLoop> closures = {{&runs, 0, 4}, {&runs, 1}};
        const std::vector<kiln_parallel_loop> loops = loops_of(closures, {3, 3});
        EXPECT_EQ(kiln_parallel_for_joined(threads, loops.data(), 2, nullptr, 0), kiln_failed);
        EXPECT_EQ(runs.pieces.size(), 2u);
    }
}

}  // namespace
