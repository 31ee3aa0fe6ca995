"""Runs a command below a filter under which system calls fail: outer_seccomp.py ERRNO CALL[:FLAG],… -- COMMAND…

ERRNO 0: the call returns 0 and does nothing. CALL:FLAG: only when the first argument has the flag. x86-64."""
import ctypes
import errno
import os
import struct
import sys

CALLS = {
    "clone": 56, "prctl": 157, "pivot_root": 155, "mount": 165, "umount2": 166, "unshare": 272, "setns": 308, "seccomp": 317,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "clone3": 435, "openat2": 437,
    "pidfd_open": 434, "mount_setattr": 442, "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446,
}
FLAGS = {"NEWUSER": 0x10000000, "NEWNS": 0x20000, "NEWPID": 0x20000000, "NEWNET": 0x40000000, "NEWIPC": 0x8000000, "NEWUTS": 0x4000000}
ALLOW, ERROR = 0x7FFF0000, 0x00050000
LOAD, EQUAL, ANY_BIT, ANSWER = 0x20, 0x15, 0x45, 0x06

word, names, command = sys.argv[1], sys.argv[2].split(","), sys.argv[4:]
error = ERROR | (0 if word == "0" else getattr(errno, word))
rows = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, 0xC000003E), (ANSWER, 0, 0, ALLOW)]
for name in names:
    call, _, flag = name.partition(":")
    rows.append((LOAD, 0, 0, 0))
    if flag:
        rows += [(EQUAL, 0, 3, CALLS[call]), (LOAD, 0, 0, 16), (ANY_BIT, 0, 1, FLAGS[flag])]
    else:
        rows.append((EQUAL, 0, 1, CALLS[call]))
    rows.append((ANSWER, 0, 0, error))
rows.append((ANSWER, 0, 0, ALLOW))


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("rows", ctypes.c_void_p)]


packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
kernel = ctypes.CDLL(None, use_errno=True)
if os.geteuid() != 0:
    kernel.prctl(38, 1, 0, 0, 0)  # no_new_privs: an ordinary user may not install a filter without
if kernel.syscall(317, 1, 0, ctypes.byref(Program(len(rows), ctypes.addressof(packed)))) != 0:
    sys.exit("outer_seccomp: " + os.strerror(ctypes.get_errno()))
os.execvp(command[0], command)
