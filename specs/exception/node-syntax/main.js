let x = 1;
let = = 2;
