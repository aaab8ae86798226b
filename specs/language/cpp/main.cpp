#include <iostream>
#include <vector>
int main(int, char **v) { std::vector<int> a{1, 2}; std::cout << "cpp " << v[1] << " " << a.size() << "\n"; }
