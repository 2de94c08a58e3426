# expect: memory limit
def custom_kernel(data):
    held = []
    while True:
        held.append(b"x" * (64 << 20))
