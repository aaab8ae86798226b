throw "words";
