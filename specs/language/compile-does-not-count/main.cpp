#include <iostream>
#include <map>
#include <regex>
int main() { std::cout << "ok\n"; }
