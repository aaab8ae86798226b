package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() { fmt.Println("go", os.Args[1], runtime.GOMAXPROCS(0)) }
