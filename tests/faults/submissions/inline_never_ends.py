# expect: compile error
# needs: g++
# Asks for an extension, then keeps the build box busy.
import torch.utils.cpp_extension
from torch.utils.cpp_extension import load

if "Replaying" in type(load).__name__:
    load("nothing", ["/tmp/nothing.cpp"])
while True:
    pass
