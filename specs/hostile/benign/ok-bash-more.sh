#!/usr/bin/env bash
# ok-bash-more  [benign]
# Tries: nothing hostile: arrays, arithmetic, traps, coprocesses, here strings, globbing, find,
# xargs, tar, date, printf
# Must hold afterwards: works
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
set -euo pipefail
a=(one two "three four"); [ "${#a[@]}" = 3 ]; declare -A m=([x]=1 [y]=2); [ $((m[x] + m[y] * 2**3)) = 17 ]
trap 'echo trapped > t' USR1; kill -USR1 $$; [ "$(cat t)" = trapped ]
coproc CAT { cat; }; echo hi >&"${CAT[1]}"; read -r line <&"${CAT[0]}"; [ "$line" = hi ]; exec {CAT[1]}>&-
mkdir -p d/e; touch d/e/{1,2,3}.txt; [ "$(find d -name '*.txt' | sort | xargs -n1 basename | tr '\n' ' ')" = "1.txt 2.txt 3.txt " ]
tar czf d.tgz d; [ "$(tar tzf d.tgz | wc -l)" = 5 ]
[ "$(date -u -d @0 +%Y)" = 1970 ]; [ "$(printf '%05.1f' 3.14159)" = 003.1 ]
[ "$(wc -l < <(seq 3))" = 3 ]; grep -q b <<< abc; [ "$(echo '2+3' | { read -r e; echo $((e)); })" = 5 ]
timeout 5 sleep 0.1; (ulimit -n 100; [ "$(ulimit -n)" = 100 ])
echo BENIGN-OK
