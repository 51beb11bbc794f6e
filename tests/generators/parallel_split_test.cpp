// Into how many pieces threads share the iterations of a kernel's outermost loops.
#include "moves/parallel_split.h"

#include <gtest/gtest.h>

namespace kiln {
namespace {

TEST(ParallelSplit, PiecesAreEvenForFewThreadsAndMany) {
    const struct {
        int iterations, most, pieces;
    } rows[] = {
        {448, 64, 64},    // eight rounds for eight threads, one for 64
        {300, 64, 60},    // not 50, which four threads and eight share less evenly
        {1152, 64, 64},   //
        {1152, 256, 64},  // more of them would be no more even
        {500, 256, 125},  //
        {97, 64, 97},     // a prime number
        {12, 64, 12},     //
    };
    for (const auto &row : rows) {
        EXPECT_EQ(even_pieces(row.iterations, row.most), row.pieces) << row.iterations << " of at most " << row.most;
        EXPECT_EQ(row.iterations % even_pieces(row.iterations, row.most), 0);
    }
}

TEST(ParallelSplit, LoopsWithinEvenOnesAreLeftWhole) {
    EXPECT_TRUE(is_left_whole(3, {32}, 64));
    EXPECT_FALSE(is_left_whole(3, {32}, 192)) << "for 64 threads";
    EXPECT_TRUE(is_left_whole(3, {4, 8}, 64));
    EXPECT_FALSE(is_left_whole(3, {7}, 64));
    EXPECT_TRUE(is_left_whole(3, {49}, 128)) << "49 runs of 3";
    EXPECT_FALSE(is_left_whole(3, {70}, 183));
}

TEST(ParallelSplit, LongWorkIsWorthMorePieces) {
    EXPECT_EQ(pieces_worth(1e6), pieces_worth(0));
    EXPECT_GT(pieces_worth(5e7), pieces_worth(0));
    EXPECT_EQ(pieces_worth(1e12), pieces_worth(1e10));
}

TEST(ParallelSplit, LoopsWithinFewLargePiecesAreShared) {
    const SharedWork work(1e9);
    EXPECT_TRUE(work.within(7).is_shared());
    EXPECT_FALSE(work.within(64).is_shared()) << "even for all";
    EXPECT_FALSE(work.within(97).is_shared()) << "small pieces";
    EXPECT_FALSE(SharedWork(1e7).within(7).is_shared());
    EXPECT_FALSE(SharedWork(0).within(7).is_shared());
    EXPECT_TRUE(SharedWork(1e10).within(7).within(9).is_shared());
}

TEST(ParallelSplit, LoopsAreCutIntoPartsUntilPiecesAreEven) {
    const SharedWork work(1e9);
    EXPECT_EQ(work.even_parts(16, 8), 1);
    EXPECT_EQ(work.even_parts(8, 16), 2);
    EXPECT_EQ(work.even_parts(3, 5), 5);
    EXPECT_EQ(work.within(7).even_parts(3, 5), 1) << "others may have all threads";
    EXPECT_EQ(SharedWork(0).even_parts(3, 5), 1);
}

}  // namespace
}  // namespace kiln
