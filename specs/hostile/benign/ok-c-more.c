// ok-c-more  [benign]
// Tries: nothing hostile: mathematics, files, pipes, fork and vfork, signals, shared memory,
// semaphores, stdin
// Must hold afterwards: works
// Expected: status exit, exit code 0, survivors 0, wall <= 14 s
#include <fcntl.h>
#include <math.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    volatile double x = 2.0;
    if (fabs(sqrt(x) * sqrt(x) - 2.0) > 1e-12 || fabs(sin(x) * sin(x) + cos(x) * cos(x) - 1.0) > 1e-12) return 1;
    int a = 0, b = 0;
    if (scanf("%d %d", &a, &b) != 2 || a + b != 7) return 2;
    FILE *f = fopen("f.txt", "w+");
    if (!f || fprintf(f, "%d\n", a) < 0) return 3;
    rewind(f);
    if (fscanf(f, "%d", &b) != 1 || a != b) return 4;
    sem_t *s = mmap(0, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sem_init(s, 1, 0);
    if (fork() == 0) {
        sem_post(s);
        _exit(5);
    }
    int st;
    sem_wait(s);
    wait(&st);
    if (WEXITSTATUS(st) != 5) return 6;
    int shm = shm_open("/ok", O_CREAT | O_RDWR, 0600);
    if (shm < 0 || ftruncate(shm, 4096)) return 7;
    if (vfork() == 0) execl("/bin/true", "true", (char *)0);
    wait(&st);
    if (st || system("exit 3") >> 8 != 3) return 8;
    puts("BENIGN-OK");
    return 0;
}
