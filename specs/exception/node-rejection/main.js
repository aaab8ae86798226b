Promise.reject(new RangeError("far"));
