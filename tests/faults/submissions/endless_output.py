# expect: output limit
import os


def custom_kernel(data):
    line = b"x" * (1 << 20)
    for _ in range(10_000):
        os.write(1, line)
