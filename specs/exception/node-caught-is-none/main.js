try { null.x } catch { console.log("caught") }
