# expect: accepted
# needs: g++
import ctypes

from torch.utils.cpp_extension import load

SOURCE = """
extern "C" void twice(const float* in, float* out, long n) {
  for (long i = 0; i < n; ++i) out[i] = 2 * in[i];
}
"""
with open("/tmp/twice.cpp", "w") as file:
    file.write(SOURCE)
twice = ctypes.CDLL(load("twice", ["/tmp/twice.cpp"], is_python_module=False)).twice


def custom_kernel(data):
    x, y = data
    twice(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel()))
    return y
