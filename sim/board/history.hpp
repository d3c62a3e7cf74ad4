// The newest values of an endless series, addressed by their index in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

template <typename T>
class History {
 public:
  explicit History(size_t capacity) : capacity_(capacity) {}

  void push(T value) {
    if (values_.size() < capacity_)
      values_.push_back(value);
    else
      values_[end_ % capacity_] = value;
    ++end_;
  }

  uint64_t begin() const { return end_ - values_.size(); }
  uint64_t end() const { return end_; }
  bool holds(uint64_t index) const { return index >= begin() && index < end_; }
  T at(uint64_t index) const { return values_[index % capacity_]; }

 private:
  size_t capacity_;
  uint64_t end_ = 0;
  std::vector<T> values_;
};
