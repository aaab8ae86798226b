// comp-asm-include  [compile]
// Tries: let the assembler read a host file as source, so that its lines appear in error
// messages, and let it write files elsewhere
// Must hold afterwards: the file is not there when the assembler runs
// Expected: status exit|compile_error, survivors 0, wall <= 14 s
__asm__(".include \"/var/tmp/hostile-canary/secret.txt\"");
__asm__(".incbin \"/var/tmp/hostile-canary-state/token\"");
__asm__(".print \"assembled\"");
int main(void) { return 0; }
