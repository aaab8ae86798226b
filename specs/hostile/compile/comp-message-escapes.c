// comp-message-escapes  [compile]
// Tries: control sequences in the source, which the compiler quotes in its messages
// Must hold afterwards: on a terminal they are shown escaped
// Expected: status compile_error|exit, survivors 0, wall <= 14 s
#error ]0;owned [2J ]52;c;aG9zdGlsZQ==
#warning [31m red
int main(void) { return 0; }
