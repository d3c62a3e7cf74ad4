// The memory that the front end's AXI4 master sees: one outstanding burst in each direction, a fixed latency.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

// What memory does with a burst; tests make it misbehave.
enum class Answer : uint32_t { okay = 0, error = 1, silence = 2 };

// Top is the Verilated model; its m_axi_* ports are 128 bits wide.
template <typename Top>
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {}

  uint8_t* data() { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

  Answer on_write = Answer::okay;
  Answer on_read = Answer::okay;

  // True while an answer is due: clocks are needed even if the front end itself only waits.
  bool busy() const { return write_left_ || write_open_ || read_left_ || read_beats_; }

  void reset(Top& top) {
    top.m_axi_awready = 1;
    top.m_axi_wready = 1;
    top.m_axi_bvalid = 0;
    top.m_axi_bresp = 0;
    top.m_axi_arready = 1;
    top.m_axi_rvalid = 0;
    top.m_axi_rlast = 0;
    top.m_axi_rresp = 0;
  }

  // Before the rising edge, outputs settled: note the handshakes.
  void sample(Top& top) {
    active_ = top.m_axi_awvalid | top.m_axi_wvalid | top.m_axi_arvalid | busy();
    if (!active_) return;
    if (top.m_axi_awvalid && top.m_axi_awready) {
      write_address_ = top.m_axi_awaddr;
      write_bad_ = top.m_axi_awsize != kSize || top.m_axi_awburst != kIncrement;
      write_open_ = true;
      address_seen_ = true;
    }
    if (top.m_axi_wvalid && top.m_axi_wready) {
      write_open_ = true;
      data_.push_back(beat(top));
      if (top.m_axi_wlast) last_seen_ = true;
    }
    if (top.m_axi_bvalid && top.m_axi_bready) answered_write_ = true;
    if (top.m_axi_arvalid && top.m_axi_arready) {
      read_address_ = top.m_axi_araddr;
      read_bad_ = top.m_axi_arsize != kSize || top.m_axi_arburst != kIncrement;
      read_beats_ = top.m_axi_arlen + 1u;
      read_left_ = kLatency;
      asked_ = true;
    }
    if (top.m_axi_rvalid && top.m_axi_rready) taken_ = true;
  }

  // After the rising edge: registered outputs of the memory.
  void drive(Top& top) {
    if (!active_) return;
    drive_write(top);
    drive_read(top);
  }

 private:
  static constexpr uint32_t kBytes = 16;     // of a beat
  static constexpr uint32_t kSize = 4;       // AxSIZE: 16 bytes
  static constexpr uint32_t kIncrement = 1;  // AxBURST
  static constexpr uint32_t kLatency = 8;    // cycles from the last of a request to its answer
  static constexpr uint32_t kSlaveError = 2, kDecodeError = 3;

  struct Beat {
    uint8_t bytes[kBytes];
    uint16_t strobes;
  };

  static Beat beat(Top& top) {
    Beat result;
    for (int word = 0; word < 4; ++word) {
      uint32_t value = top.m_axi_wdata[word];
      std::memcpy(result.bytes + 4 * word, &value, 4);
    }
    result.strobes = top.m_axi_wstrb;
    return result;
  }

  bool holds(uint64_t address, uint64_t beats) const {
    return address <= bytes_.size() && beats * kBytes <= bytes_.size() - address;
  }

  void drive_write(Top& top) {
    if (answered_write_) {
      answered_write_ = write_open_ = false;
      top.m_axi_bvalid = 0;
      top.m_axi_awready = 1;
      top.m_axi_wready = 1;
    }
    if (address_seen_) top.m_axi_awready = 0;
    if (last_seen_) top.m_axi_wready = 0;
    if (address_seen_ && last_seen_) {
      address_seen_ = last_seen_ = false;
      write_left_ = kLatency;
    } else if (write_left_ && --write_left_ == 0) {
      finish_write(top);
    }
  }

  void finish_write(Top& top) {
    if (on_write == Answer::silence) {
      data_.clear();
      write_open_ = false;
      return;
    }
    top.m_axi_bresp = on_write == Answer::error ? kSlaveError : 0;
    if (write_bad_ || !holds(write_address_, data_.size())) {
      top.m_axi_bresp = kDecodeError;
    } else if (on_write == Answer::okay) {
      uint8_t* to = bytes_.data() + write_address_;
      for (const Beat& beat : data_) {
        for (uint32_t lane = 0; lane < kBytes; ++lane)
          if (beat.strobes >> lane & 1) to[lane] = beat.bytes[lane];
        to += kBytes;
      }
    }
    data_.clear();
    top.m_axi_bvalid = 1;
  }

  void drive_read(Top& top) {
    if (asked_) {
      asked_ = false;
      top.m_axi_arready = 0;
    }
    if (taken_) {
      taken_ = false;
      top.m_axi_rvalid = 0;
      read_address_ += kBytes;
      if (--read_beats_ == 0) {
        top.m_axi_rlast = 0;
        top.m_axi_arready = 1;
        return;
      }
    }
    if (read_left_) {
      if (--read_left_) return;
      if (on_read == Answer::silence) {
        read_beats_ = 0;
        return;
      }
    }
    if (read_beats_ && !top.m_axi_rvalid) {
      bool inside = !read_bad_ && holds(read_address_, read_beats_);
      for (int word = 0; word < 4; ++word) {
        uint32_t value = 0;
        if (inside) std::memcpy(&value, bytes_.data() + read_address_ + 4 * word, 4);
        top.m_axi_rdata[word] = value;
      }
      top.m_axi_rresp = !inside ? kDecodeError : on_read == Answer::error ? kSlaveError : 0;
      top.m_axi_rlast = read_beats_ == 1;
      top.m_axi_rvalid = 1;
    }
  }

  std::vector<uint8_t> bytes_;
  bool active_ = false;
  // write
  std::vector<Beat> data_;
  uint64_t write_address_ = 0;
  uint32_t write_left_ = 0;
  bool write_open_ = false, write_bad_ = false;
  bool address_seen_ = false, last_seen_ = false, answered_write_ = false;
  // read
  uint64_t read_address_ = 0;
  uint32_t read_left_ = 0, read_beats_ = 0;
  bool read_bad_ = false, asked_ = false, taken_ = false;
};
