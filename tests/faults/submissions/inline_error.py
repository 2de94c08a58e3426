# expect: compile error
# needs: g++
from torch.utils.cpp_extension import load

with open("/tmp/broken.cpp", "w") as file:
    file.write("int f( { return 1; }\n")
load("broken", ["/tmp/broken.cpp"], is_python_module=False)


def custom_kernel(data):
    return data[1]
