/* Floors that Python is too slow for. `floor read FILE`: for each byte on standard input opens, reads and closes FILE and
   answers with one byte: the least that a read in another process can cost. `floor spawn N PROGRAM [ARG…]`: starts the
   program N times, one after the other, and prints the nanoseconds of each. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "read")) {
        char byte, buffer[8192];
        while (read(0, &byte, 1) == 1) {
            int fd = open(argv[2], O_RDONLY);
            if (fd < 0 || read(fd, buffer, sizeof buffer) < 0) return 1;
            close(fd);
            if (write(1, &byte, 1) != 1) return 1;
        }
        return 0;
    }
    if (argc >= 4 && !strcmp(argv[1], "spawn")) {
        for (long n = atol(argv[2]); n > 0; n--) {
            long start = now();
            int status;
            pid_t pid = fork();
            if (pid == 0) {
                execvp(argv[3], argv + 3);
                _exit(127);
            }
            if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return 1;
            printf("%ld\n", now() - start);
        }
        return 0;
    }
    return 2;
}
