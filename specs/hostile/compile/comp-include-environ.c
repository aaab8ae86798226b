// comp-include-environ  [compile]
// Tries: include the environments of the compiler and of its ancestors, and the credentials of
// the host by detours, so that they appear in error messages
// Must hold afterwards: none of it is there
// Expected: status exit|compile_error, survivors 0, wall <= 14 s
#if __has_include("/proc/self/environ")
#include "/proc/self/environ"
#endif
#if __has_include("/proc/self/root/etc/shadow")
#include "/proc/self/root/etc/shadow"
#endif
#if __has_include("/work/../etc/shadow")
#include "/work/../etc/shadow"
#endif
#if __has_include("/proc/1/root/var/tmp/hostile-canary/secret.txt")
#include "/proc/1/root/var/tmp/hostile-canary/secret.txt"
#endif
#if __has_include("/var/tmp/hostile-canary-state/token")
#include "/var/tmp/hostile-canary-state/token"
#endif
#if __has_include(</var/tmp/hostile-canary/secret.txt>)
#include </var/tmp/hostile-canary/secret.txt>
#endif
#if __has_include("/proc/1/environ")
#include "/proc/1/environ"
#endif
int main(void) { return 0; }
