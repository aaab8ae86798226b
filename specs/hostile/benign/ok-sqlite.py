# ok-sqlite  [benign]
# Tries: nothing hostile: a database on disk with a write-ahead log, two connections and locks
# Must hold afterwards: works (needs file locks and shared memory maps)
# Expected: status exit, exit code 0, survivors 0, wall <= 14 s
import sqlite3
a = sqlite3.connect("x.db", timeout=5)
assert a.execute("pragma journal_mode=wal").fetchone()[0] == "wal"
a.execute("create table t(x integer primary key, y text)")
a.executemany("insert into t(y) values (?)", [(str(i),) for i in range(5000)])
a.commit()
b = sqlite3.connect("x.db", timeout=5)
assert b.execute("select count(*), sum(x) from t").fetchone() == (5000, 12502500)
b.execute("delete from t where x % 2")
b.commit()
assert a.execute("select count(*) from t").fetchone() == (2500,)
a.execute("vacuum")
print("BENIGN-OK")
