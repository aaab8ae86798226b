// ok-node-exception  [benign]
// Tries: nothing hostile: end by an error that nobody catches
// Must hold afterwards: reported as exit code 1 with the error's type
// Expected: status exit, exit code 1, survivors 0, wall <= 20 s
console.log("BENIGN-OK");
class OwnError extends Error { constructor(m) { super(m); this.name = "OwnError"; } }
throw new OwnError("as meant");
