"""Makes attempts and prints the kernel's answer to each: `OK` or `ERR <name>`, one line an attempt."""
import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time

C = ctypes.CDLL(None, use_errno=True)


def call(number, *args):
    """A raw system call; its error as an exception."""
    result = C.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if result == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def machine_code(text):
    """Runs instructions given in hexadecimal, and gives their result."""
    import mmap
    memory = mmap.mmap(-1, 4096, prot=7)
    memory.write(bytes.fromhex(text))
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()


def need(fact, what="what was looked for is not there"):
    """The attempt counts as refused when this does not hold."""
    if not fact:
        raise OSError(errno.ENODATA, what)


def main():
    here = os.getcwd()
    for attempt in json.load(open(sys.argv[1])):
        os.chdir(here)
        try:
            exec(attempt, {**globals()})
            print("OK", flush=True)
        except OSError as error:
            print("ERR", errno.errorcode.get(error.errno, error.errno), flush=True)


main()
