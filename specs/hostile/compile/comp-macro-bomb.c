// comp-macro-bomb  [compile]
// Tries: macros that double: a few lines become sixteen million words
// Must hold afterwards: compiling ends at a limit or by an error, under the limits of the run
// Expected: status compile_error|killed:memory|killed:timeout|killed:cpu|killed:disk|exit,
// survivors 0, wall <= 25 s
#define A(...) __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__
#define B(...) A(A(__VA_ARGS__))
#define C(...) B(B(__VA_ARGS__))
#define D(...) B(C(__VA_ARGS__))
int v[] = {A(D(1, 2, 3, 4,))};
int main(void) { return v[0] - 1; }
