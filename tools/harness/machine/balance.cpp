#include "harness/machine/balance.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

namespace kiln::harness {
namespace {

double sum(const std::vector<double> &values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

// Runs pieces in the calling thread and tells how long each took.
class Recorder {
  public:
    explicit Recorder(int workers) : hook_{this, workers, parallel_for} {}

    const kiln_threads *hook() const { return &hook_; }

    // The loops since the last time.
    std::vector<std::vector<double>> take() { return std::exchange(loops_, {}); }

  private:
    static int32_t parallel_for(void *context, kiln_task task, void *closure, int32_t count) {
        auto &recorder = *static_cast<Recorder *>(context);
        std::vector<double> seconds;
        seconds.reserve(count);
        int32_t code = kiln_ok;
        double begin = now();
        for (int32_t index = 0; index < count && code == kiln_ok; ++index) {
            code = task(closure, index, 0);
            const double end = now();
            seconds.push_back(end - begin);
            begin = end;
        }
        recorder.loops_.push_back(std::move(seconds));
        return code;
    }

    std::vector<std::vector<double>> loops_;
    kiln_threads hook_;
};

bool are_alike(const std::vector<std::vector<double>> &a, const std::vector<std::vector<double>> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const auto &x, const auto &y) { return x.size() == y.size(); });
}

// Keeps the lesser times.
void keep_least(PieceTimes *least, const PieceTimes &times) {
    least->between = std::min(least->between, times.between);
    for (size_t loop = 0; loop < times.loops.size(); ++loop)
        for (size_t piece = 0; piece < times.loops[loop].size(); ++piece)
            least->loops[loop][piece] = std::min(least->loops[loop][piece], times.loops[loop][piece]);
}

// When the last worker has done its last piece: each begins with its own run of pieces, and takes others' last ones
// when that is done.
double finish_of(const std::vector<double> &pieces, int workers) {
    struct Share {
        size_t begin, end;
    };
    const auto bound = [&](size_t worker) { return worker * pieces.size() / workers; };
    std::vector<Share> shares;
    using Worker = std::pair<double, size_t>;  // when it is free, and which
    std::priority_queue<Worker, std::vector<Worker>, std::greater<>> free;
    for (size_t worker = 0; worker < static_cast<size_t>(workers); ++worker) {
        shares.push_back({bound(worker), bound(worker + 1)});
        free.emplace(0, worker);
    }
    double finish = 0;
    for (size_t left = pieces.size(); left > 0; --left) {
        const auto [time, worker] = free.top();
        free.pop();
        size_t piece = 0;
        for (size_t i = 0; i < shares.size(); ++i) {
            Share &share = shares[(worker + i) % shares.size()];
            if (share.begin == share.end) continue;
            piece = i == 0 ? share.begin++ : --share.end;
            break;
        }
        free.emplace(time + pieces[piece], worker);
        finish = std::max(finish, time + pieces[piece]);
    }
    return finish;
}

}  // namespace

double PieceTimes::seconds() const {
    return std::accumulate(loops.begin(), loops.end(), between,
                           [](double seconds, const auto &loop) { return seconds + sum(loop); });
}

PieceTimes time_pieces(Job *job, int workers, double budget) {
    Recorder recorder(workers);
    const kiln_threads *own = std::exchange(job->arguments.threads, recorder.hook());
    PieceTimes least = {workers, {}, 0};
    const double first = now();
    for (int call = 0; call < 2 || now() - first < budget; ++call) {
        const double begin = now();
        const bool succeeds = job->run();
        const double seconds = now() - begin;
        PieceTimes times = {workers, recorder.take(), seconds};
        for (const std::vector<double> &loop : times.loops) times.between -= sum(loop);
        if (!succeeds || (call > 0 && !are_alike(times.loops, least.loops))) {
            least = {workers, {}, NAN};
            break;
        }
        if (call == 0) least = times;
        keep_least(&least, times);
    }
    job->arguments.threads = own;
    return least;
}

Balance simulate(const PieceTimes &times) {
    double pieces = 0, finish = 0;
    for (const std::vector<double> &loop : times.loops) {
        pieces += sum(loop);
        finish += finish_of(loop, times.workers);
    }
    const double share = pieces > 0 ? finish / (pieces / times.workers) : times.workers;
    return {share, times.seconds() / (times.between + finish)};
}

}  // namespace kiln::harness
