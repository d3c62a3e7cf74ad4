// The front end as a board inside a process: samples in and out, memory, registers and an interrupt, at the pace of the
// wall clock. The C functions at the end are the whole interface; everything else is hidden.

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "Vboard.h"
#include "Vboard___024root.h"
#include "history.hpp"
#include "verilated.h"

// What Vboard::eval() comes down to. The rest of that serves waves and multi-threaded models and costs as much again.
void Vboard___024root___eval(Vboard___024root* root);

namespace {

constexpr uint64_t kRate = 48'000;                // ticks a second
constexpr uint64_t kClock = 100'000'000;          // clk in Hz when every cycle is run
constexpr uint64_t kSlowCycles = 256;             // cycles a tick of the slow clock (12.288 MHz)
constexpr uint64_t kTicksPerStep = 48;            // one millisecond: what runs between two looks at the clock
constexpr uint64_t kTicksPerHop = 192;            // one frame of 4 ms
constexpr uint64_t kDacCycles = 64;               // a tick's DAC sample comes no later than this
constexpr uint64_t kStuckCycles = 1'000'000;      // busy for longer than this never ends
constexpr int64_t kHopeless = 500'000'000;        // ns of lag from which the board no longer insists on its time
constexpr uint32_t kMemoryBytes = 0x40000;        // as in board.sv; rings at 0x10000 and 0x30000
constexpr size_t kDacHistory = kRate * 60 * 15;   // samples that can be read back: a quarter of an hour
constexpr size_t kWallHistory = 1000 * 60 * 60;   // milliseconds whose wall time is remembered: an hour

enum class Speed : uint32_t { every_cycle = 0, slow_clock = 1, idle_skip = 2 };
// What memory does with a burst; tests make it misbehave.
enum class Answer : uint32_t { okay = 0, error = 1, silence = 2 };
enum class Wait : int { irq = 1, timeout = 0, closing = -1, stuck = -2 };

int64_t clock_ns(clockid_t id) {
  timespec now;
  clock_gettime(id, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

int64_t wall_now() { return clock_ns(CLOCK_MONOTONIC); }

void sleep_until(int64_t ns) {
  timespec when{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR) {
  }
}

}  // namespace

// Measurements, in the layout that the host reads with ctypes.
struct Counters {
  uint64_t ticks;            // 48 kHz samples run
  uint64_t cycles;           // clocks that took, register accesses not counted
  uint64_t hop_cycles_max;   // clocks of the longest hop of 4 ms
  uint64_t queued;           // source samples not yet run
  uint64_t dac_begin;        // oldest tick whose DAC sample can be read back
  uint64_t dac_missing;      // ticks that gave no DAC sample
  int64_t cpu_ns;            // processor time of the board's thread
  int64_t wall_ns;           // time since the board's thread started
  int64_t lag_ns;            // by how much the newest millisecond was late
  int64_t lag_max_ns;
  uint64_t stuck;            // 1: the front end stayed busy for ever
};

class Board {
 public:
  Board() : dac_(kDacHistory), wall_(kWallHistory) {
    context_.threads(1);  // no pool of idle workers
    top_ = std::make_unique<Vboard>(&context_);
    static_assert(sizeof(top_->rootp->board__DOT__memory) == kMemoryBytes);
    std::memset(memory(), 0, kMemoryBytes);
    top_->clk = 0;
    top_->rst = 1;
    top_->free_run = 0;
    top_->sample_valid = top_->request = 0;
    top_->free_run = top_->on_write = top_->on_read = 0;
    top_->eval();
    for (int i = 0; i < 8; ++i) cycle();
    top_->rst = 0;
    settle();
  }

  ~Board() {
    stop();
    Verilated::threadContextp(&context_);  // else it unregisters from the board that this thread made last
    top_.reset();
  }

  // Beats of 128 bits lie in the simulator's memory as they do in a little-endian machine's.
  uint8_t* memory() { return reinterpret_cast<uint8_t*>(&top_->rootp->board__DOT__memory[0]); }

  void configure(Speed speed) {
    Access access(*this);
    speed_ = speed;
    top_->free_run = speed != Speed::idle_skip;  // the reference stops no module's clock
  }

  // What the microphone hears, over and over, while no source plays; nothing is silence.
  void room(const int16_t* samples, size_t count) {
    Access access(*this);
    room_.assign(samples, samples + count);
  }

  // The microphone also hears the loudspeaker: the DAC sample `delay` > 0 ticks ago times `gain`; 0 is silence.
  void echo(double gain, uint64_t delay) {
    Access access(*this);
    echo_gain_ = gain;
    echo_delay_ = delay;
  }

  void misbehave(Answer on_write, Answer on_read) {
    Access access(*this);
    top_->on_write = static_cast<uint8_t>(on_write);
    top_->on_read = static_cast<uint8_t>(on_read);
  }

  void write(uint32_t address, uint32_t value) {
    Access access(*this);
    request(true, address, value);
  }

  uint32_t read(uint32_t address) {
    Access access(*this);
    return request(false, address, 0);
  }

  // Samples behind those already queued; returns the tick at which the first one reaches the ADC.
  uint64_t play(const int16_t* samples, size_t count) {
    Access access(*this);
    if (source_at_ > source_.size() / 2) {  // forget what has been run
      source_.erase(source_.begin(), source_.begin() + source_at_);
      source_at_ = 0;
    }
    uint64_t first = ticks_ + source_.size() - source_at_;
    source_.insert(source_.end(), samples, samples + count);
    return first;
  }

  // Run `count` ticks in the caller's thread, for tests and as fast as possible.
  void run(uint64_t count) {
    Access access(*this);
    for (uint64_t i = 0; i < count && !stuck_; ++i) tick();
    ticks_done_.store(ticks_, std::memory_order_release);
    publish_irq();
  }

  // From now on a thread of its own runs the board: `pace` times as fast as the wall clock; 0 as fast as possible, but
  // never past an interrupt that the host has not served. `throttle` < 1 makes it too slow on purpose.
  void start(double pace, double throttle) {
    if (thread_.joinable()) return;
    {
      Access access(*this);
      tick_wall_ns_ = pace > 0 ? 1e9 / kRate / pace : 0;
      first_live_tick_ = ticks_;
      started_ = wall_now();
    }
    running_ = true;
    thread_ = std::thread([=, this] { pace > 0 ? live(pace, throttle) : virtual_time(); });
  }

  void stop() {
    wake();
    running_ = false;
    {
      std::lock_guard<std::mutex> lock(irq_mutex_);
      irq_changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  // Everyone who waits for an interrupt returns, now and from now on.
  void wake() {
    std::lock_guard<std::mutex> lock(irq_mutex_);
    closing_ = true;
    irq_changed_.notify_all();
  }

  Wait wait_irq(int timeout_ms) {
    std::unique_lock<std::mutex> lock(irq_mutex_);
    irq_changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return irq_ || closing_ || stuck_; });
    return closing_ ? Wait::closing : stuck_ ? Wait::stuck : irq_ ? Wait::irq : Wait::timeout;
  }

  Counters counters() {
    Access access(*this);
    return {ticks_,       cycles_,     hop_cycles_max_, source_.size() - source_at_,
            dac_.begin(), dac_missing_, cpu_ns_,        wall_.end() ? wall_.at(wall_.end() - 1) - started_ : 0,
            lag_ns_,      lag_max_ns_, stuck_};
  }

  uint64_t ticks() const { return ticks_done_.load(std::memory_order_acquire); }

  size_t dac(uint64_t from, int16_t* out, size_t count) {
    Access access(*this);
    size_t copied = 0;
    while (copied < count && dac_.holds(from + copied)) {
      out[copied] = dac_.at(from + copied);
      ++copied;
    }
    return copied;
  }

  // Each millisecond runs when its last sample is due, all at once; a sample counts as run at its own time plus the
  // lateness of its millisecond. A tick to come, or one that is forgotten, counts as if run without lateness from here.
  int64_t wall_ns(uint64_t tick) {
    Access access(*this);
    if (!started_) return -1;
    const double since = static_cast<double>(tick) - static_cast<double>(first_live_tick_);
    if (!wall_.end()) return started_ + static_cast<int64_t>(since * tick_wall_ns_);
    const double step = std::clamp<double>(std::floor(since / kTicksPerStep), wall_.begin(), wall_.end() - 1);
    const double ticks_before_end = (step + 1) * kTicksPerStep - since;
    return wall_.at(static_cast<uint64_t>(step)) - static_cast<int64_t>(ticks_before_end * tick_wall_ns_);
  }

 private:
  // Registers, queue and model belong to whoever holds one of these.
  class Access {
   public:
    explicit Access(Board& board) : board_(board) {
      ++board_.waiting_;
      board_.mutex_.lock();
      --board_.waiting_;
    }
    ~Access() { board_.mutex_.unlock(); }
    Access(const Access&) = delete;

   private:
    Board& board_;
  };

  void cycle() {
    if (top_->dac_valid) {
      dac_sample_ = static_cast<int16_t>(top_->dac);
      dac_seen_ = true;
    }
    top_->clk = 1;
    Vboard___024root___eval(top_->rootp);
    top_->clk = 0;
    Vboard___024root___eval(top_->rootp);
  }

  void guarded_cycle() {
    cycle();
    if (++unanswered_ > kStuckCycles) declare_stuck();
  }

  // Clock until nothing is left to do.
  void settle() {
    unanswered_ = 0;
    while (top_->busy && !stuck_) guarded_cycle();
  }

  // One register access, and whatever it sets going.
  uint32_t request(bool write, uint32_t address, uint32_t value) {
    if (stuck_) return 0;
    top_->request = 1;
    top_->request_write = write;
    top_->request_address = address;
    top_->request_data = value;
    cycle();
    top_->request = 0;
    for (unanswered_ = 0; !top_->answered && !stuck_;) guarded_cycle();
    uint32_t answer = top_->answer;
    settle();
    publish_irq();
    return answer;
  }

  void declare_stuck() {
    std::lock_guard<std::mutex> lock(irq_mutex_);
    stuck_ = true;
    irq_changed_.notify_all();
  }

  // What the microphone hears in this tick.
  int16_t hear() {
    int16_t source = room_.empty() ? 0 : room_[ticks_ % room_.size()];
    if (source_at_ < source_.size()) source = source_[source_at_++];
    if (echo_gain_ == 0 || !dac_.holds(ticks_ - echo_delay_)) return source;  // a tick before 0 wraps, and is not held
    long sum = source + std::lrint(echo_gain_ * dac_.at(ticks_ - echo_delay_));
    return static_cast<int16_t>(std::clamp<long>(sum, INT16_MIN, INT16_MAX));
  }

  // One 48 kHz sample in, one out.
  void tick() {
    int16_t sample = hear();
    dac_seen_ = false;
    top_->sample = static_cast<uint16_t>(sample);
    top_->sample_valid = 1;
    cycle();
    top_->sample_valid = 0;
    uint64_t used = 1;
    switch (speed_) {
      case Speed::every_cycle:
        for (uint64_t due = (ticks_ + 1) * kClock / kRate - ticks_ * kClock / kRate; used < due; ++used) cycle();
        break;
      case Speed::slow_clock:
        for (; used < kSlowCycles; ++used) cycle();
        break;
      case Speed::idle_skip:
        while (top_->busy || (!dac_seen_ && used < kDacCycles)) {
          cycle();
          if (++used > kStuckCycles) {
            declare_stuck();
            break;
          }
        }
        break;
    }
    if (!dac_seen_) {
      ++dac_missing_;
      dac_sample_ = 0;
    }
    dac_.push(dac_sample_);
    cycles_ += used;
    hop_cycles_ += used;
    if (++ticks_ % kTicksPerHop == 0) {
      hop_cycles_max_ = std::max(hop_cycles_max_, hop_cycles_);
      hop_cycles_ = 0;
    }
  }

  void publish_irq() {
    bool level = top_->irq;
    if (level == irq_) return;
    std::lock_guard<std::mutex> lock(irq_mutex_);
    irq_ = level;
    irq_changed_.notify_all();
  }

  // Above the chain's threads. A live board must have its millisecond when it is due, which the ordinary scheduler does
  // not grant even to the nicest priority; where the right to more is missing, go on as we are.
  static void raise_priority(bool punctual) {
    pthread_setname_np(pthread_self(), "voxpath-rtl");
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    sched_param param{};
    param.sched_priority = punctual ? sched_get_priority_min(SCHED_RR) : 0;
    if (pthread_setschedparam(pthread_self(), punctual ? SCHED_RR : SCHED_OTHER, &param) != 0 || !punctual)
      setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), -10);
  }

  void step() {
    Access access(*this);
    for (uint64_t i = 0; i < kTicksPerStep && !stuck_; ++i) tick();
    wall_.push(wall_now());
    ticks_done_.store(ticks_, std::memory_order_release);
    publish_irq();
    cpu_ns_ = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  }

  void live(double pace, double throttle) {
    const double step_ns = 1e6 / pace;
    bool punctual = speed_ == Speed::idle_skip;  // the other speeds would keep a core to themselves
    raise_priority(punctual);
    const int64_t origin = started_;
    for (uint64_t steps = 1; running_ && !stuck_; ++steps) {
      const int64_t due = origin + static_cast<int64_t>(steps * step_ns);
      sleep_until(due);
      const int64_t began = wall_now();
      step();
      lag_ns_ = wall_now() - due;
      if (lag_ns_ > lag_max_ns_) lag_max_ns_ = lag_ns_.load();
      if (punctual && lag_ns_ > kHopeless) raise_priority(punctual = false);
      if (throttle < 1) sleep_until(began + static_cast<int64_t>(step_ns / throttle));
    }
  }

  void virtual_time() {
    raise_priority(false);
    while (running_ && !stuck_) {
      {
        std::unique_lock<std::mutex> lock(irq_mutex_);
        irq_changed_.wait(lock, [this] { return !irq_ || closing_ || !running_; });
      }
      // A mutex is not fair; let those who wait have it.
      for (int i = 0; i < 50 && waiting_; ++i) std::this_thread::sleep_for(std::chrono::microseconds(20));
      step();
    }
  }

  VerilatedContext context_;
  std::unique_ptr<Vboard> top_;
  std::mutex mutex_;
  std::atomic<int> waiting_{0};
  Speed speed_ = Speed::idle_skip;

  std::vector<int16_t> source_;
  size_t source_at_ = 0;
  std::vector<int16_t> room_;
  double echo_gain_ = 0;
  uint64_t echo_delay_ = 1;  // ticks
  History<int16_t> dac_;
  int16_t dac_sample_ = 0;
  bool dac_seen_ = false;

  uint64_t ticks_ = 0, cycles_ = 0, hop_cycles_ = 0, hop_cycles_max_ = 0, dac_missing_ = 0, unanswered_ = 0;
  std::atomic<uint64_t> ticks_done_{0};

  History<int64_t> wall_;  // when each live millisecond was done
  uint64_t first_live_tick_ = 0;
  double tick_wall_ns_ = 0;
  int64_t started_ = 0;
  std::atomic<int64_t> cpu_ns_{0}, lag_ns_{0}, lag_max_ns_{0};

  std::mutex irq_mutex_;
  std::condition_variable irq_changed_;
  std::atomic<bool> irq_{false}, closing_{false}, stuck_{false}, running_{false};
  std::thread thread_;
};

// ---- the interface ---------------------------------------------------------------------------------------------------

#pragma GCC visibility push(default)
extern "C" {

Board* vb_create() { return new Board; }
void vb_destroy(Board* board) { delete board; }
uint8_t* vb_memory(Board* board) { return board->memory(); }
uint32_t vb_memory_bytes() { return kMemoryBytes; }
void vb_configure(Board* board, uint32_t speed) { board->configure(static_cast<Speed>(speed)); }
void vb_room(Board* board, const int16_t* samples, size_t count) { board->room(samples, count); }
void vb_echo(Board* board, double gain, uint64_t delay) { board->echo(gain, delay); }
void vb_misbehave(Board* board, uint32_t on_write, uint32_t on_read) {
  board->misbehave(static_cast<Answer>(on_write), static_cast<Answer>(on_read));
}
void vb_write(Board* board, uint32_t address, uint32_t value) { board->write(address, value); }
uint32_t vb_read(Board* board, uint32_t address) { return board->read(address); }
uint64_t vb_play(Board* board, const int16_t* samples, size_t count) { return board->play(samples, count); }
void vb_run(Board* board, uint64_t ticks) { board->run(ticks); }
void vb_start(Board* board, double pace, double throttle) { board->start(pace, throttle); }
void vb_stop(Board* board) { board->stop(); }
void vb_wake(Board* board) { board->wake(); }
int vb_wait_irq(Board* board, int timeout_ms) { return static_cast<int>(board->wait_irq(timeout_ms)); }
void vb_counters(Board* board, Counters* out) { *out = board->counters(); }
uint64_t vb_ticks(Board* board) { return board->ticks(); }
size_t vb_dac(Board* board, uint64_t from, int16_t* out, size_t count) { return board->dac(from, out, count); }
int64_t vb_wall_ns(Board* board, uint64_t tick) { return board->wall_ns(tick); }

}  // extern "C"
#pragma GCC visibility pop
