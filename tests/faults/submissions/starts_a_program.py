# expect: runtime error
import subprocess


def custom_kernel(data):
    subprocess.run(["/bin/true"], check=True)
    return data[1].copy_(2 * data[0])
