// comp-error-flood  [compile]
// Tries: a source with a hundred thousand errors
// Must hold afterwards: the messages are cut, the answer is valid and small
// Expected: status compile_error|killed:memory|killed:timeout|killed:cpu, survivors 0, wall <=
// 25 s
#define E(x) int v##x = undeclared_##x + ;
#define A(x) E(x##0) E(x##1) E(x##2) E(x##3) E(x##4) E(x##5) E(x##6) E(x##7) E(x##8) E(x##9)
#define B(x) A(x##0) A(x##1) A(x##2) A(x##3) A(x##4) A(x##5) A(x##6) A(x##7) A(x##8) A(x##9)
#define C(x) B(x##0) B(x##1) B(x##2) B(x##3) B(x##4) B(x##5) B(x##6) B(x##7) B(x##8) B(x##9)
int main(void) {
    C(1)
    C(2)
    C(3)
    return 0;
}
