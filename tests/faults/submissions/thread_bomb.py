# expect: runtime error
import threading
import time


def custom_kernel(data):
    while True:
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
