// ok-cpp  [benign]
// Tries: nothing hostile: C++: containers, strings, exceptions, threads, chrono, files,
// streams
// Must hold afterwards: works
// Expected: status exit, exit code 0, survivors 0, wall <= 20 s
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
int main() {
    std::vector<int> v(100);
    std::iota(v.begin(), v.end(), 1);
    int sum = 0;
    std::thread t([&] { sum = std::accumulate(v.begin(), v.end(), 0); });
    t.join();
    try {
        throw std::runtime_error("thrown");
    } catch (const std::exception &e) {
        if (std::string(e.what()) != "thrown") return 1;
    }
    std::map<std::string, std::unique_ptr<int>> m;
    m["a"] = std::make_unique<int>(sum);
    std::ofstream("f.txt") << *m["a"] << "\n";
    int back = 0, in = 0;
    std::ifstream("f.txt") >> back;
    std::cin >> in;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (back != 5050 || in != 12) return 2;
    std::cout << "BENIGN-OK" << std::endl;
}
