// comp-endless-constexpr  [compile]
// Tries: compute at compile time for half a minute, within the compiler's own bounds
// Must hold afterwards: compiling ends at a time limit
// Expected: status killed:timeout|killed:cpu|killed:memory|compile_error, survivors 0, wall <=
// 30 s
template <int N> constexpr unsigned long spin() {
    unsigned long s = N;
    for (unsigned long i = 0; i < 250000; i++) s = s * 6364136223846793005ul + i;
    return s;
}
template <int N> struct Many { static constexpr unsigned long value = spin<N>() + Many<N - 1>::value; };
template <> struct Many<0> { static constexpr unsigned long value = 0; };
int main() { return Many<40>::value == 42; }
