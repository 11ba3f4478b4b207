// tests/torch/fake_tensor.h: a tensor in the memory of a stand-in for a device.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <optional>
#include <utility>

// Contiguous, of the size and type that at::empty() was asked for. `key`: the device's.
inline at::Tensor empty_of(c10::Allocator& allocator, c10::DispatchKey key, bool resizable,
                           c10::IntArrayRef size, std::optional<at::ScalarType> dtype) {
    const auto meta = c10::scalarTypeToTypeMeta(dtype.value_or(at::kFloat));
    const auto bytes = static_cast<size_t>(c10::multiply_integers(size)) * meta.itemsize();
    auto storage =
        c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                              allocator.allocate(bytes), &allocator, resizable);
    auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                         c10::DispatchKeySet(key), meta);
    made.unsafeGetTensorImpl()->set_sizes_contiguous(size);
    return made;
}
