// comp-options-inside  [compile]
// Tries: give the compiler options from inside the source: a plugin, another output, a
// response file, a linker script by a library of that name
// Must hold afterwards: they are refused or have no effect outside the sandbox
// Expected: status exit|compile_error, survivors 0, wall <= 14 s
#pragma GCC optimize("fplugin=/work/evil.so")
#pragma GCC optimize("-o/var/tmp/hostile-canary/writable.txt")
#pragma comment(lib, "/var/tmp/hostile-canary/secret.txt")
#pragma GCC dependency "/var/tmp/hostile-canary/secret.txt"
__asm__(".section .note.evil,\"a\"\n.string \"@/etc/passwd\"\n.previous");
__attribute__((optimize("fplugin=/work/evil.so"))) static int f(void) { return 1; }
int main(void) { return f() - 1; }
