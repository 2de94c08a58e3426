# expect: runtime error
import threading


class Unpicklable(Exception):
    def __init__(self, lock):
        super().__init__("cannot be pickled")
        self.lock = lock

    def __reduce__(self):
        raise TypeError("no")


def custom_kernel(data):
    raise Unpicklable(threading.Lock())
