"""Measures beside peers, interleaved, and prints one table.  Standard library only; called by startup.sh.

A lone time on a shared machine says nothing: quote medians and ratios of one run.
"""
import json, os, pathlib, statistics, subprocess, sys, threading, time

binary, floor, place, runs = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), int(sys.argv[4])
work, policy = place / "work", place / "policy.toml"
options = ["--root", str(work), "--policy", str(policy)]
environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(place / "home"), "LANG": "C.UTF-8"}
LINKS = [(f"/{name}", os.readlink(f"/{name}")) for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32") if os.path.islink(f"/{name}")]
DIRS = [d for d in ("/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64") if os.path.isdir(d) and not os.path.islink(d)]
BWRAP = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
         *[a for d in DIRS for a in ("--ro-bind", d, d)], *[a for at, to in LINKS for a in ("--symlink", to, at)],
         "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev", "--bind", str(work), str(work), "--chdir", str(work), "--die-with-parent", "--"]
rows = []
goals = []


def goal(what, value, most, unit=""):
    goals.append(f"{'met   ' if value <= most else 'MISSED'}  {what}: {value:.2f}{unit}, at most {most}{unit}")


def row(what, samples, base=None, unit="ms"):
    middle = statistics.median(samples)
    scale = {"ms": 1e3, "µs": 1e6}[unit]
    rows.append((what, f"{middle * scale:.2f} {unit}", f"{min(samples) * scale:.2f}", f"{middle / base:.2f}" if base else "", str(len(samples))))
    return middle


def once(argv):
    begin = time.perf_counter()
    # No Python between fork and exec: posix_spawn, as a shell would do it.
    pid = os.posix_spawnp(argv[0], argv, environment, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)])
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    took = time.perf_counter() - begin
    if status:
        sys.exit(f"status {status}: {' '.join(argv)}")
    return took


def interleaved(*actions):
    for action in actions:
        for _ in range(5):
            action()
    samples = [[] for _ in actions]
    for _ in range(runs):
        for action, into in zip(actions, samples):
            into.append(action())
    return samples


def starts():
    for program in (["/bin/true"], ["bash", "-c", "true"]):
        bare, bwrap, ours = interleaved(lambda: once(program), lambda: once([*BWRAP, *program]), lambda: once([binary, "run", *options, "--", *program]))
        name = " ".join(program)
        base = row(f"{name}: bare", bare)
        peer = row(f"{name}: bwrap, all namespaces", bwrap, base)
        mine = row(f"{name}: stockade run", ours, base)
        if program == ["/bin/true"]:
            goal("1. stockade run beside bwrap, by medians", mine / peer, 0.8)
            goal("1. the same by the least of each (a busy machine)", min(ours) / min(bwrap), 0.8)


class Lines:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=work, bufsize=0)
        self.answers = os.fdopen(self.process.stdout.fileno(), "rb", 65536, closefd=False)

    def ask(self, line):
        begin = time.perf_counter()
        self.process.stdin.write(line)
        answer = self.answers.readline()
        took = time.perf_counter() - begin
        return took, answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def calls():
    session = Lines([binary, "session", *options])
    pipe = subprocess.Popen([floor, "read", str(work / "four.txt")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def ours(tool, args):
        line = json.dumps({"tool": tool, "args": args}).encode() + b"\n"

        def go():
            took, answer = session.ask(line)
            # A cached "unchanged" answer would measure nothing; each file is read once.
            if b'"ok":true' not in answer:
                sys.exit(f"{tool}: {answer[:300]}")
            return took
        return go

    def trip():
        begin = time.perf_counter()
        os.write(pipe.stdin.fileno(), b"x")
        os.read(pipe.stdout.fileno(), 1)
        return time.perf_counter() - begin

    files = iter(range(10_000))

    def read_next():
        return ours("read_file", {"path": f"many/{next(files)}.txt"})()

    def spaced(action):
        # Agents pause between calls, so that a worker kept ready has been made again.
        def go():
            time.sleep(0.01)
            return action()
        return go
    bare, back, slow = interleaved(trip, read_next, spaced(read_next))
    base = row("4 KiB over a bare pipe", bare, unit="µs")
    row("read_file of 4 KiB, one after the other", back, base, unit="µs")
    apart = row("read_file of 4 KiB, 10 ms apart", slow, base, unit="µs")
    goal("2. read_file over the bare pipe", (apart - base) * 1e3, 0.4, " ms")

    def plain():
        out = subprocess.run([floor, "spawn", "1", "bash", "-c", "true"], stdout=subprocess.PIPE, check=True, env=environment)
        return int(out.stdout) / 1e9
    bare, ours_ = interleaved(plain, ours("bash", {"command": "true"}))
    base = row("bash -c true: fork and exec", bare)
    mine = row("bash true in a session", ours_, base)
    goal("3. bash in a session beside fork and exec", mine / base, 1.3)
    memory(session.process.pid)
    session.close()
    pipe.stdin.close()
    pipe.wait()


def memory(pid):
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    todo, below = [pid], []
    while todo:
        one = todo.pop()
        below.append(one)
        todo += children.get(one, [])
    launcher = children.get(pid, [])
    launcher += [first for one in launcher for first in children.get(one, [])]
    for name, which in (("supervisor", [pid]), ("supervisor and launcher", [pid, *launcher]), ("supervisor, launcher and workers kept ready", below)):
        size = private = 0
        for one in which:
            try:
                text = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text()
            except OSError:
                continue
            fields = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
            size, private = size + fields["Rss"], private + fields["Pss"]
        rows.append((f"memory of {name} ({len(which)} processes)", f"{size / 1024:.1f} MiB", "", "", f"{private / 1024:.1f} MiB proportional"))
        if name == "supervisor and launcher":
            goal("4. memory of supervisor and launcher, proportional", private / 1024, 15, " MiB")


def hundred():
    server = Lines([binary, "mcp", *options])
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}}
    server.ask(json.dumps(hello).encode() + b"\n")
    server.process.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    number = 0

    def ours():
        nonlocal number
        lines = []
        for _ in range(100):
            number += 1
            lines.append(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "bash", "arguments": {"command": "true"}}}))
        data = "\n".join(lines).encode() + b"\n"
        begin = time.perf_counter()
        threading.Thread(target=server.process.stdin.write, args=(data,)).start()
        for _ in range(100):
            answer = json.loads(server.answers.readline())
            if answer["result"]["isError"]:
                sys.exit(f"mcp: {answer}"[:300])
        return time.perf_counter() - begin

    def peers():
        begin = time.perf_counter()
        pids = [os.posix_spawnp("bwrap", [*BWRAP, "bash", "-c", "true"], environment) for _ in range(100)]
        if any(os.waitpid(pid, 0)[1] for pid in pids):
            sys.exit("a bwrap failed")
        return time.perf_counter() - begin
    ours(), peers()
    samples = [[], []]
    for _ in range(max(5, runs // 10)):
        samples[0].append(peers())
        samples[1].append(ours())
    base = row("100 × bash true at once: bwrap", samples[0])
    mine = row("100 × bash true at once: stockade mcp", samples[1], base)
    goal("5. time of 100 calls beside 100 bwrap", mine / base, 0.33)
    server.close()


starts()
calls()
hundred()
head = ("what", "median", "least", "ratio", "runs")
width = [max(len(r[i]) for r in [head, *rows]) for i in range(5)]
for r in [head, *rows]:
    print("  ".join(cell.ljust(w) if i in (0, 4) else cell.rjust(w) for i, (cell, w) in enumerate(zip(r, width))).rstrip())
print()
print("\n".join(goals))
