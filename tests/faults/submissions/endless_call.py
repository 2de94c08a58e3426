# expect: time limit
def custom_kernel(data):
    while True:
        pass
