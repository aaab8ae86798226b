console.log(require("os").cpus().length, require("os").availableParallelism());
