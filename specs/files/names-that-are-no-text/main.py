open(b"bad\xff", "w").close()
open("new\nline", "w").close()
open("good", "w").close()
