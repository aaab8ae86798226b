// one
function f() {
  null.x;
}
f();
