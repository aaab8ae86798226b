import { argv } from "node:process";
console.log("node", argv[2]);
